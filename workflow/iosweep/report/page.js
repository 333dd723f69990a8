"use strict";
// The table of results: filter, sort, open a row, copy a command, save as CSV.
// Everything from the campaign is set as text, never as HTML.

const report = JSON.parse(document.getElementById("report-data").textContent);

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

function bytes(value) {
  const step = Math.max(0, Math.min(4, Math.floor(Math.log2(value || 1) / 10)));
  return `${Number((value / 1024 ** step).toPrecision(6))} ${["B", "KiB", "MiB", "GiB", "TiB"][step]}`;
}

function shown(value, type) {
  if (value === null || value === undefined) return "–";
  if (type === "number") return number(value);
  if (type === "size") return bytes(value);
  if (type === "verdict") return `${report.symbols[value] ?? ""} ${value}`;
  return String(value);
}

const NUMERIC = ["number", "size", "count"];

function cell(value, column) {
  const text = shown(value, column.type);
  const kind = column.type === "verdict" ? value : NUMERIC.includes(column.type) ? "number" : column.type;
  if (column.type !== "point") return element("td", {class: kind}, text);
  return element("td", {class: kind, title: text}, report.table.names[value] ?? text);
}

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

const table = document.getElementById("table");
const {columns, rows, details, repetition_columns: repetitionColumns} = report.table;
const FEW = 300; // rows that are shown at first: laying out thousands takes seconds
const state = {text: "", verdict: "", sort: null, descending: false, most: FEW};

const entries = rows.map((row, index) => ({
  row,
  details: details[index],
  series: report.series[index],
  // What the filter looks into: what the row shows, and what belongs to it.
  haystack: [...row.map((value, i) => shown(value, columns[i].type)), details[index].sweeps, ...details[index].reasons]
    .join(" ").toLowerCase(),
  tr: null,
  behind: null,
}));

function rowOf(entry) {
  if (entry.tr) return entry.tr;
  const command = entry.details.command;
  const opener = element("button", {type: "button", class: "open", "aria-expanded": "false", title: "Show the repetitions"}, "▸");
  entry.tr = element("tr", {onclick: () => toggle(entry)},
    element("td", {class: "opener"}, opener),
    element("td", {class: "command"}, command ? copyButton(command) : null),
    ...entry.row.map((value, i) => cell(value, columns[i])));
  return entry.tr;
}

function toggle(entry) {
  if (getSelection().toString()) return; // somebody is marking text
  const opener = entry.tr.querySelector(".open");
  if (entry.behind) {
    entry.behind.remove();
    entry.behind = null;
  } else {
    entry.behind = behind(entry);
    entry.tr.after(entry.behind);
  }
  opener.textContent = entry.behind ? "▾" : "▸";
  opener.setAttribute("aria-expanded", String(Boolean(entry.behind)));
}

// What stands behind a row: reasons, repetitions, open checks, command.
function behind({row, details: found, series}) {
  const parts = [];
  const point = row[columns.findIndex((column) => column.key === "point")];
  parts.push(element("p", {}, element("code", {}, point), " ", copyButton(point, "Copy the point's id"), ` in ${found.sweeps.replaceAll(",", ", ")}`));
  if (found.reasons.length) parts.push(element("ul", {}, ...found.reasons.map((reason) => element("li", {}, reason))));
  if (found.repetitions.length) {
    // A tool without latencies has no columns for them, and what is valid has no reasons.
    const used = repetitionColumns.map((column, i) => ({...column, i}))
      .filter(({i}) => found.repetitions.some((values) => values[i] !== null && values[i] !== ""));
    parts.push(element("table", {},
      element("thead", {}, element("tr", {}, ...used.map((column) => head(column, column.title)))),
      element("tbody", {}, ...found.repetitions.map((values) =>
        element("tr", {}, ...used.map((column) => cell(values[column.i], column)))))));
  }
  if (series) parts.push(...overTime(series));
  for (const told of [found.where, found.checks]) {
    const open = new Map(); // text -> its repetitions
    for (const [repetition, texts] of Object.entries(told)) {
      for (const text of texts) open.set(text, [...(open.get(text) ?? []), repetition]);
    }
    if (open.size) {
      parts.push(element("ul", {class: "muted"}, ...[...open].map(([text, repetitions]) =>
        element("li", {}, `${report.table.texts[text]} (repetition ${repetitions.join(", ")})`))));
    }
  }
  const on = found.each ? ", on its first node; the others have directories and offsets of their own" : "";
  if (found.command) parts.push(element("p", {class: "muted"}, `Command of the first repetition${on}:`), element("pre", {}, found.command), copyButton(found.command));
  return element("tr", {class: "behind"}, element("td", {colspan: columns.length + 2}, element("div", {}, ...parts)));
}

function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Figures over the time of one repetition, and the rates of its nodes and workers.
function overTime({repetition, drawings = [], rates = [], rates_left: left, elsewhere}) {
  const told = (text) => element("p", {class: "muted"}, text);
  if (elsewhere) return [told(`Rates over time of repetition ${repetition}: in series.parquet and parts.parquet, this page has those of other points.`)];
  const parts = [];
  if (drawings.length) parts.push(told(`Over time, in repetition ${repetition}, the nearest to the median:`), element("div", {class: "series"}, ...drawings.map(small)));
  if (rates.length) {
    const titles = ["", "throughput", "operations"];
    const used = titles.map((_, i) => i).filter((i) => rates.some((rate) => rate[i]));
    parts.push(told(`Rate of each node and worker in repetition ${repetition}, slowest first${left ? `; ${left.toLocaleString("en")} more are in parts.parquet` : ""}:`),
      element("table", {class: "rates"},
        element("thead", {}, element("tr", {}, ...used.map((i) => element("th", {scope: "col", class: i ? "number" : ""}, titles[i])))),
        element("tbody", {}, ...rates.map((rate) => element("tr", {}, ...used.map((i) => element("td", {class: i ? "number" : ""}, rate[i])))))));
  }
  return parts;
}

// A figure with lines from zero to its maximum, each from the middle of an interval to that of the next.
function small({title, unit, lines, thin, left}) {
  const [width, height] = [260, 70];
  const read = lines.flatMap((line) => line.values).filter((value) => value !== null);
  const [low, high] = [Math.min(...read), Math.max(...read)];
  const begin = Math.min(...lines.map((line) => line.begin_s));
  const end = Math.max(...lines.map((line) => line.begin_s + line.interval_s * line.values.length));
  const x = (s) => (2 + (width - 4) * (s - begin) / (end - begin || 1)).toFixed(1);
  const y = (value) => (height - 3 - (height - 6) * value / (high || 1)).toFixed(1);
  const path = ({begin_s: first, interval_s: step, values}) => values.map((value, i) => {
    if (value === null) return "";
    const [from, middle, to] = [0, 0.5, 1].map((part) => x(first + (i + part) * step));
    const joined = (k) => values[k] !== null && values[k] !== undefined;
    return (joined(i - 1) ? `L${middle} ${y(value)}` : `M${from} ${y(value)}L${middle} ${y(value)}`) + (joined(i + 1) ? "" : `L${to} ${y(value)}`);
  }).join("");
  const range = `${number(low)} to ${number(high)} ${unit}`;
  const when = `${number(begin)} to ${number(end)} s`;
  const drawn = svg("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title} over time, ${when}: ${range}`},
    svg("line", {x1: 0, x2: width, y1: height - 3, y2: height - 3}),
    ...lines.map((line, i) => svg("path", {class: `c${i}${thin ? " thin" : ""}`, d: path(line)})));
  const names = lines.length > 1 || lines[0].name
    ? element("p", {}, ...lines.map((line, i) => element("span", {}, element("b", {class: `c${i}`}), line.name)), left ? `and ${left} between these` : null) : null;
  return element("figure", {}, element("h5", {}, title), drawn, element("p", {}, `${range}, ${when}`), names);
}

function visible() {
  // Words are looked for at the start of words: "read" is not to find the sweep "threads".
  const wanted = state.text.toLowerCase().split(/\s+/).filter(Boolean)
    .map((word) => new RegExp(`(?<![a-z0-9])${word.replace(/[^a-z0-9]/g, "\\$&")}`));
  const found = entries.filter(({haystack, details: {outcomes}}) =>
    (!state.verdict || outcomes.includes(state.verdict)) && wanted.every((word) => word.test(haystack)));
  if (state.sort === null) return found;
  const sign = state.descending ? -1 : 1;
  return found.sort((a, b) => compare(a.row[state.sort], b.row[state.sort], sign));
}

// Numbers as numbers, text in natural order, what is absent last whichever way.
function compare(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * String(a).localeCompare(String(b), "en", {numeric: true});
}

function show() {
  const found = visible();
  const list = found.slice(0, state.most).flatMap((entry) => [rowOf(entry), entry.behind].filter(Boolean));
  table.tBodies[0].replaceChildren(...list);
  const more = document.getElementById("more");
  more.hidden = found.length <= state.most;
  more.textContent = `Show all ${found.length.toLocaleString("en")} (the first ${state.most} are shown)`;
  document.getElementById("shown").textContent = `${found.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
  for (const button of document.querySelectorAll("#verdicts button")) {
    button.setAttribute("aria-pressed", String(button.dataset.verdict === state.verdict));
  }
  table.tHead.querySelectorAll("th[data-column]").forEach((th, i) => {
    if (i === state.sort) th.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
    else th.removeAttribute("aria-sort");
  });
}

function sortBy(i) {
  // Figures are looked at from the top: the first click on a number shows the largest.
  const first = columns[i].type === "number";
  state.descending = state.sort === i ? !state.descending : first;
  state.sort = i;
  show();
}

// What a spreadsheet would take for a formula is made text, as in safe_csv.py.
function harmless(text) {
  const number = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
  return /^(?:[\x00-\x20\x7f-\xa0\xad\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff]*[-=+@\uff1d\uff0b\uff20\uff0d]|[\t\r\n])/.test(text) && !number.test(text) ? `'${text}` : text;
}

function csv() {
  const quote = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const quoted = (value) => (value === null ? "" : quote(harmless(String(value))));
  const titles = columns.map((column) => column.title + (column.unit ? ` (${column.unit})` : column.type === "size" ? " (bytes)" : ""));
  const lines = [[...titles, "command"], ...visible().map(({row, details: found}) => [...row, found.command])];
  const url = URL.createObjectURL(new Blob([lines.map((line) => line.map(quoted).join(",") + "\n").join("")], {type: "text/csv"}));
  element("a", {href: url, download: `${report.campaign}.csv`}).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

table.tHead.append(element("tr", {}, element("th", {class: "opener"}), element("th", {class: "command", "aria-label": "command"}), ...columns.map((column, i) => {
  const th = head(column, element("button", {type: "button", onclick: () => sortBy(i)}, column.title));
  th.dataset.column = column.key;
  th.dataset.title = column.title; // printed instead of the button
  return th;
})));

document.getElementById("filter").addEventListener("input", (event) => { state.text = event.target.value; show(); });
document.getElementById("more").addEventListener("click", () => { state.most = Infinity; show(); });
document.getElementById("csv").addEventListener("click", csv);
for (const link of document.querySelectorAll("[data-verdict]")) {
  link.addEventListener("click", () => { state.verdict = link.dataset.verdict; show(); });
}
show();
