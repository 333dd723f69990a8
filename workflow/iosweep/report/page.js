// What the other scripts share. Everything from the campaign is set as text, never as HTML.

// The data of the page is compressed (page.py): base64 of a zlib stream.
async function unpacked(place) {
  const packed = Uint8Array.from(atob(place.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

const report = await unpacked(document.getElementById("report-data"));

// element("td", {class: "number"}, "text", child, ...)
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// At least three significant digits; thousands set apart.
function number(value) {
  const size = Math.abs(value);
  if (size >= 99.95) return Math.round(value).toLocaleString("en");
  if (size >= 9.995) return value.toFixed(1);
  return size >= 0.9995 ? value.toFixed(2) : String(Number(value.toPrecision(3)));
}

// In the largest unit in which six digits are exact; as formats.size in Python.
function bytes(value) {
  const short = (step) => Number((value / 1024 ** step).toPrecision(6));
  const step = [4, 3, 2, 1].find((one) => value >= 1024 ** one && short(one) * 1024 ** one === value);
  return step ? `${short(step)} ${["KiB", "MiB", "GiB", "TiB"][step - 1]}` : `${value.toLocaleString("en")} B`;
}

function shown(value, type) {
  if (value === null || value === undefined) return "–";
  if (type === "number") return number(value);
  if (type === "size") return bytes(value);
  if (type === "verdict") return `${report.symbols[value] ?? ""} ${value}`;
  return String(value);
}

const NUMERIC = ["number", "size", "count"];

function head(column, ...more) {
  const kind = NUMERIC.includes(column.type) ? "number" : "";
  return element("th", {scope: "col", class: kind}, ...more, column.unit ? element("small", {}, column.unit) : null);
}

function copyButton(text, title = "Copy the command") {
  return element("button", {
    type: "button", class: "copy", title,
    onclick: async (event) => {
      event.stopPropagation();
      const button = event.currentTarget;
      button.textContent = (await copy(text)) ? "copied" : "not copied";
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    },
  }, "copy");
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // A page from a disk is not always a secure context; a selected text area works everywhere.
    const area = element("textarea", {class: "offscreen"});
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

// Paper cannot be opened: what is printed of the folded parts is opened before.
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details.printed:not([open])")) part.toggleAttribute("data-printed", part.open = true);
});
addEventListener("afterprint", () => {
  for (const part of document.querySelectorAll("details[data-printed]")) {
    part.open = false;
    part.removeAttribute("data-printed");
  }
});

// A link to a folded part opens it.
function unfold(hash) {
  const target = hash.length > 1 ? document.getElementById(decodeURIComponent(hash.slice(1))) : null;
  for (let part = target?.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  return target;
}
for (const link of document.querySelectorAll("a[href^='#']")) link.addEventListener("click", () => unfold(link.hash));
let asked = unfold(location.hash);
if (asked?.closest("details")) asked.scrollIntoView({behavior: "instant"});

// Figures that are drawn after that move it, unless the reader has already gone on.
for (const gesture of ["wheel", "touchmove", "keydown", "pointerdown"]) addEventListener(gesture, () => { asked = null; }, {passive: true});
function arrive() {
  asked?.scrollIntoView({behavior: "instant"});
}

// The rules for a dark system hold for the page where the reader says so; paper is always light.
const darkRules = [...document.styleSheets[0].cssRules].filter((rule) => rule.media?.mediaText.includes("prefers-color-scheme"));
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const theme = element("button", {
  type: "button", id: "theme",
  onclick: () => paint(theme.getAttribute("aria-pressed") !== "true"),
}, "dark");

function paint(dark) {
  for (const rule of darkRules) rule.media.mediaText = dark ? "screen" : "not all";
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
  theme.setAttribute("aria-pressed", String(dark));
}

document.querySelector(".top nav").append(theme);
paint(prefersDark.matches);
prefersDark.addEventListener("change", () => paint(prefersDark.matches));
