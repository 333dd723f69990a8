// The table of results: filter, sort, open a row, save as CSV. It never scrolls sideways: columns that do not fit into
// the window are folded into the detail of their rows, parameters into the cell of the phase as well. In a narrow window
// a row is a card (page.css).

const table = document.getElementById("table");
const {columns, rows, details, repetition_columns: repetitionColumns} = report.table;
const FEW = 100; // rows that are shown at first: laying out thousands takes seconds
// Widths in px: of the first column, of a column whose text wraps, of the widest table of cards, and of paper.
const OPENER = 34, WIDEST = 150, CARDS = 730, PAPER = 845;
const PRINTED = 300; // rows on paper
const state = {text: "", verdict: "", sort: null, descending: false, most: FEW, shown: [], version: 0};

const entries = rows.map((row, index) => ({
  row,
  details: details[index],
  series: report.series[index],
  index,
  // What the filter looks into: what the row shows, and what belongs to it.
  haystack: [...row.map((value, i) => shown(value, columns[i].type)),
    ...row.filter((value, i) => columns[i].type === "size"), details[index].sweeps, ...details[index].reasons]
    .join(" ").toLowerCase(),
  tr: null,
  version: -1, // of the columns that its row was made for
  behind: null,
}));

// The width that each column needs: of its longest text, over all rows, so that it does not change with the filter.
const widths = (() => {
  const canvas = document.createElement("canvas").getContext("2d");
  const measured = (text, weight = "") => {
    canvas.font = `${weight} 13px ${getComputedStyle(document.body).fontFamily}`;
    return canvas.measureText(text).width;
  };
  const longest = (texts) => texts.reduce((most, text) => (text.length > most.length ? text : most), "");
  return columns.map((column, i) => {
    const words = [...column.title.split(/[ -]/), column.unit ?? ""].map((word) => measured(word, "600"));
    const text = measured(longest(rows.map((row) => shown(row[i], column.type))));
    return 17 + Math.max(...words, NUMERIC.includes(column.type) ? text : Math.min(text, WIDEST));
  });
})();

// Columns that fit into a width, in their order; those of the lowest rank come first.
function fitting(width) {
  const order = columns.map((_, i) => i).sort((a, b) => (columns[a].rank ?? 0) - (columns[b].rank ?? 0) || a - b);
  if (width < CARDS) return order.filter((i) => !columns[i].parameter && (columns[i].rank ?? 0) < 5).sort((a, b) => a - b);
  let room = width - OPENER;
  return order.filter((i) => {
    const fits = !columns[i].rank || widths[i] <= room;
    if (fits) room -= widths[i];
    return fits;
  }).sort((a, b) => a - b);
}

function layOut(width) {
  const found = fitting(width);
  if (String(found) === String(state.shown)) return;
  state.shown = found;
  state.version += 1;
  table.tHead.replaceChildren(element("tr", {}, element("th", {class: "opener"}), ...found.map((i) => {
    const column = columns[i];
    const th = head(column, element("button", {type: "button", onclick: () => sortBy(i)}, column.title));
    th.dataset.column = column.key;
    return th;
  })));
}

function cell(value, column, folded = "") {
  const text = shown(value, column.type);
  if (column.type === "verdict") {
    return element("td", {class: `verdict ${value}`}, element("span", {"aria-hidden": "true"}, report.symbols[value] ?? ""), " ", element("span", {class: "word"}, value));
  }
  if (column.type === "point") return element("td", {class: "point"}, text);
  const kind = NUMERIC.includes(column.type) ? "number" : column.type;
  const label = value === null || !NUMERIC.includes(column.type) ? {} : {"data-label": [column.title, column.unit].filter(Boolean).join(" ")};
  return element("td", {class: kind, ...label}, column.type === "phase" ? element("span", {}, text) : text, folded ? element("small", {}, folded) : null);
}

// Parameters without a column of their own, as text: they tell rows apart.
function foldedParameters(row) {
  return columns.map((column, i) => ({...column, value: row[i], hidden: !state.shown.includes(i)}))
    .filter(({parameter, hidden, value}) => parameter && hidden && value !== null)
    .map(({title, type, unit, value}) => (type === "text" ? value : [title, shown(value, type), unit].filter(Boolean).join(" "))).join(", ");
}

function rowOf(entry) {
  if (entry.version === state.version) return entry.tr;
  const opener = element("button", {type: "button", class: "open", "aria-expanded": "false", "aria-label": "Details: repetitions, figures over time, command", title: "Show the repetitions"}, "▸");
  const folded = foldedParameters(entry.row);
  const made = element("tr", {onclick: () => toggle(entry)},
    element("td", {class: "opener"}, opener),
    ...state.shown.map((i) => cell(entry.row[i], columns[i], columns[i].type === "phase" ? folded : "")));
  entry.tr = made;
  entry.version = state.version;
  if (entry.behind) {
    entry.behind = behind(entry);
    opened(entry);
  }
  return made;
}

function opened(entry) {
  const opener = entry.tr.querySelector(".open");
  opener.textContent = entry.behind ? "▾" : "▸";
  opener.setAttribute("aria-expanded", String(Boolean(entry.behind)));
}

function toggle(entry) {
  if (getSelection().toString()) return; // somebody is marking text
  if (entry.behind) {
    entry.behind.remove();
    entry.behind = null;
  } else {
    entry.behind = behind(entry);
    entry.tr.after(entry.behind);
  }
  opened(entry);
}

// What is behind a row: columns that did not fit, reasons, repetitions, figures over time, open checks, command.
function behind({row, details: found, series, index}) {
  const parts = [];
  const point = row[columns.findIndex((column) => column.key === "point")];
  parts.push(element("p", {}, element("code", {}, point), " ", copyButton(point, "Copy the point's id"), ` in ${found.sweeps.replaceAll(",", ", ")}`));
  const rest = columns.map((column, i) => ({...column, i}))
    .filter(({i, key}) => key !== "point" && !state.shown.includes(i) && row[i] !== null);
  if (rest.length) {
    parts.push(element("dl", {class: "folded"}, ...rest.map(({title, unit, type, i}) =>
      element("div", {}, element("dt", {}, title), element("dd", {}, unit?.startsWith("±") ? `± ${shown(row[i], type)} %` : [shown(row[i], type), unit].filter(Boolean).join(" "))))));
  }
  for (const texts of [found.reasons, found.published]) if (texts.length) parts.push(element("ul", {}, ...texts.map((text) => element("li", {}, text))));
  if (found.repetitions === null) parts.push(element("p", {class: "muted"}, `Too many results for the page to have their repetitions: iosweep show ${report.campaign} ${point}`));
  else if (found.repetitions.length) parts.push(repetitionsOf(found));
  parts.push(...figuresOf(series, report.latencies.of[index] ?? []));
  const evidence = Object.entries(found.evidence);
  if (evidence.length) parts.push(element("ul", {class: "muted"}, ...evidence.map(([text, repetitions]) => element("li", {}, `${text} (repetition ${repetitions.join(", ")})`))));
  const on = found.each ? ", on its first node; the others have directories and offsets of their own" : "";
  if (found.command) parts.push(element("p", {class: "muted"}, `Command of the first repetition${on}:`), element("pre", {}, found.command), copyButton(found.command));
  return element("tr", {class: "behind"}, element("td", {colspan: state.shown.length + 1}, element("div", {}, ...parts)));
}

function repetitionsOf(found) {
  // A tool without latencies has no columns for them, and what is valid has no reasons.
  const used = repetitionColumns.map((column, i) => ({...column, i}))
    .filter(({i}) => found.repetitions.some((values) => values[i] !== null && values[i] !== ""));
  return element("table", {},
    element("thead", {}, element("tr", {}, ...used.map((column) => head(column, column.title)))),
    element("tbody", {}, ...found.repetitions.map((values) =>
      element("tr", {}, ...used.map((column) => cell(values[column.i], column))))));
}

function visible() {
  // Words are looked for at the start of words: "read" is not to find the sweep "threads".
  const wanted = state.text.toLowerCase().split(/\s+/).filter(Boolean)
    .map((word) => new RegExp(`(?<![a-z0-9])${word.replace(/[^a-z0-9]/g, "\\$&")}`));
  const found = entries.filter(({haystack, row: [verdict]}) =>
    (!state.verdict || verdict === state.verdict) && wanted.every((word) => word.test(haystack)));
  if (state.sort === null) return found;
  const sign = state.descending ? -1 : 1;
  return found.sort((a, b) => compare(a.row[state.sort], b.row[state.sort], sign));
}

// Numbers as numbers, text in natural order, what is absent last whichever way.
const natural = new Intl.Collator("en", {numeric: true}); // localeCompare makes one for each pair
function compare(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * natural.compare(String(a), String(b));
}

function show() {
  const found = visible();
  const list = found.slice(0, state.most).flatMap((entry) => [rowOf(entry), entry.behind].filter(Boolean));
  table.tBodies[0].replaceChildren(...list);
  const more = document.getElementById("more");
  more.hidden = found.length <= state.most;
  more.textContent = `Show all ${found.length.toLocaleString("en")}`;
  const counted = `${found.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
  document.getElementById("shown").textContent = more.hidden ? counted : `${counted}, here the first ${state.most}`;
  for (const button of document.querySelectorAll("#verdicts button")) {
    button.setAttribute("aria-pressed", String(button.dataset.verdict === state.verdict));
  }
  for (const th of table.tHead.querySelectorAll("th[data-column]")) {
    if (state.sort !== null && th.dataset.column === columns[state.sort].key) th.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
    else th.removeAttribute("aria-sort");
  }
  const chosen = document.getElementById("sort");
  chosen.value = state.sort === null ? "" : String(state.sort);
  document.getElementById("direction").hidden = state.sort === null;
  document.getElementById("direction").setAttribute("aria-pressed", String(state.descending));
}

function sortBy(i) {
  // Figures are looked at from the top: the first click on a number shows the largest.
  const first = columns[i]?.type === "number";
  state.descending = state.sort === i ? !state.descending : first;
  state.sort = i;
  show();
}

// What a spreadsheet would take for a formula is made text, as in results.csv.
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

function fit() {
  layOut(table.parentElement.clientWidth);
  show();
}

addEventListener("beforeprint", () => {
  state.before = state.most;
  state.most = PRINTED;
  layOut(PAPER);
  show();
});
addEventListener("afterprint", () => { state.most = state.before; fit(); });

document.getElementById("filter").addEventListener("input", (event) => { state.text = event.target.value; show(); });
document.getElementById("more").addEventListener("click", () => { state.most = Infinity; show(); });
document.getElementById("csv").addEventListener("click", csv);
document.getElementById("sort").append(...columns.map((column, i) => element("option", {value: i}, column.title)));
document.getElementById("sort").addEventListener("change", (event) => {
  state.sort = null;
  if (event.target.value === "") show();
  else sortBy(Number(event.target.value));
});
document.getElementById("direction").addEventListener("click", () => sortBy(state.sort));
for (const link of document.querySelectorAll("[data-verdict]")) {
  link.addEventListener("click", () => { state.verdict = link.dataset.verdict; show(); });
}
let width = 0;
new ResizeObserver(() => {
  const found = table.parentElement.clientWidth;
  if (!found || found === width) return;
  width = found;
  fit();
}).observe(table.parentElement);
fit();
