"use strict";
// What the figures need of the page. Everything from the campaigns is set as text, never as HTML.

const report = JSON.parse(document.getElementById("report-data").textContent);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

function shown(value) {
  return `${report.symbols[value] ?? ""} ${value}`;
}
