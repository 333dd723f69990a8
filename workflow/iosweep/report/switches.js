"use strict";
// Switches: another quantity or other axes in all figures and heat maps of a sweep, and the dark page. They are
// remembered in the fragment of the page's address alone, so that a link shows what its sender saw.

const DEFAULT = {quantity: "", logY: false, linearX: false};
const switches = new Map(); // sweep -> what its figures show
const theme = {chosen: ""}; // "", "dark" or "light"

function pickUnit(units, largest) {
  return units.findLast(([, size, least]) => Math.abs(largest) >= size * least) ?? units[0];
}

function unitOf(quantity, rows) {
  const known = rows.map((row) => quantity.y[row]).filter((value) => value !== null && value !== undefined);
  if (!known.length) return null;
  return pickUnit(report.kinds[rows[0]] === "m" ? quantity.metadata_units : quantity.units, Math.max(...known));
}

function stateOf(place) {
  return switches.get(place.closest("[data-sweep]")?.dataset.sweep) ?? DEFAULT;
}

// The figure of a place as its switches want it: its specification and marks; null where it has no such quantity.
function switched(place, figure) {
  const {quantity: key, logY, linearX} = stateOf(place);
  if (!figure.results || (!key && !logY && !linearX)) return {spec: figure.spec, marks: valuesOf(figure)};
  const spec = structuredClone(figure.spec);
  let marks = valuesOf(figure).map((mark, i) => ({...mark, row: figure.results[i]}));
  if (key) marks = marksOf(key, spec, marks);
  if (!marks.some((mark) => Number.isFinite(mark.y))) return null;
  spec.concat.forEach((panel, at) => {
    const own = marks.filter((mark) => mark.panel === at);
    for (const encoding of encodings(panel)) {
      if (logY) logarithmic(encoding, own);
      if (linearX && encoding.x?.scale) encoding.x.scale = {type: "linear", domain: [0, 1.05 * Math.max(...marks.map((mark) => mark.x ?? 0))], nice: false};
    }
  });
  return {spec, marks};
}

// What the layers of a panel share is the panel's own (vega_lite.py).
function encodings(panel) {
  return [panel.encoding ?? {}, ...panel.layer.map(({encoding}) => encoding)];
}

// The marks with another quantity, and the panels with its axes.
function marksOf(key, spec, marks) {
  const quantity = report.quantities[key];
  const measure = marks[0]?.measure;
  const kept = marks.filter((mark) => mark.measure === measure && mark.row !== null);
  return spec.concat.flatMap((panel, place) => {
    const own = kept.filter((mark) => mark.panel === place);
    const unit = unitOf(quantity, own.map((mark) => mark.row));
    if (!unit) return own.map(({x, series, panel: at, verdict}) => ({x, y: null, series, panel: at, verdict, measure}));
    const [name, size] = unit;
    const most = Math.max(...own.flatMap(({row}) => [quantity.y[row], quantity.high[row]]).filter(Number.isFinite)) / size;
    // Repetitions one by one, cut bars and knees are of the planned quantity.
    panel.layer = panel.layer.filter(({transform}) => !/each|cut|knee|label/.test(JSON.stringify(transform ?? "")));
    for (const encoding of encodings(panel)) {
      if (!encoding.y?.scale) continue;
      encoding.y.title = name.endsWith("IOPS") ? name : `${quantity.title} (${name})`;
      encoding.y.scale = {domain: [0, most || 1], nice: true};
      encoding.y.axis = {format: ",.6~g"};
    }
    return own.map((mark) => {
      const {each, cut, knee, label, scaling, ...rest} = mark;
      const [y, low, high] = [quantity.y, quantity.low, quantity.high].map((values) => (values[mark.row] === null ? null : values[mark.row] / size));
      if (y === null) return {...rest, y: null, low: null, high: null};
      const spread = low === null ? "one repetition" : `${number(low)} to ${number(high)} ${name}, smallest and largest repetition`;
      return {...rest, y, low, high, value: `${number(y)} ${name}`, spread, measure: measure ?? ""};
    });
  });
}

function logarithmic(encoding, marks) {
  if (!encoding.y?.scale) return;
  const known = marks.flatMap((mark) => [mark.y, mark.low, mark.high, ...(mark.there ?? [])]).filter((value) => value > 0);
  if (!known.length) return;
  const domain = [Math.min(...known) * 0.9, Math.max(...known) * 1.1];
  for (const mark of marks) { // a logarithmic axis has no zero
    if (!(mark.y > 0)) mark.y = null;
    if (mark.low !== null && mark.low <= 0) mark.low = domain[0];
  }
  if (encoding.y.scale.type !== "log") encoding.y.title = `${encoding.y.title}, logarithmic`;
  encoding.y.scale = {type: "log", domain, nice: false, clamp: true};
  encoding.y.axis = {format: ",.4~g", tickCount: 6};
}

// Heading and caption of a switched figure; the others of its slice would repeat it.
function describe(article) {
  const {quantity: key} = stateOf(article);
  const seen = new Set();
  for (const figure of article.querySelectorAll("figure[data-slice]")) {
    figure.hidden = Boolean(key) && seen.has(figure.dataset.slice);
    seen.add(figure.dataset.slice);
    const [heading, caption] = [figure.querySelector("h4").firstChild, figure.querySelector("figcaption")];
    figure.dataset.title ??= heading.textContent;
    figure.dataset.caption ??= caption.textContent;
    const against = figure.dataset.title.slice(figure.dataset.title.indexOf(" against "));
    const phase = figure.dataset.title.includes(": ") ? `${figure.dataset.title.split(": ")[0]}: ` : "";
    const title = report.quantities[key]?.title;
    const how = key.startsWith("p") ? "Median of the repetitions' percentiles" : "Mean of the repetitions";
    heading.textContent = key ? `${phase}${title}${against}` : figure.dataset.title;
    caption.textContent = key ? `${how}; bars: smallest and largest repetition. Hollow: not valid. Results without ${title} are not drawn.` : figure.dataset.caption;
  }
}

function recolor(article) {
  const {quantity: key} = stateOf(article);
  const quantity = report.quantities[key];
  const groups = new Map(); // the maps of a phase share unit and scale
  for (const map of article.querySelectorAll("table.heat")) {
    const cells = [...map.querySelectorAll("td[data-row]")];
    const name = map.dataset.phase;
    groups.set(name, [...(groups.get(name) ?? []), {map, cells}]);
  }
  for (const maps of groups.values()) {
    const numbers = maps.flatMap(({cells}) => cells.map((cell) => Number(cell.dataset.row)));
    const unit = quantity ? unitOf(quantity, numbers) : null;
    const highest = quantity ? Math.max(...numbers.map((row) => quantity.y[row] ?? 0)) : 0;
    for (const {map, cells} of maps) {
      const label = map.querySelector(".unit");
      label.dataset.default ??= label.textContent;
      label.textContent = !quantity ? label.dataset.default : unit ? (unit[0].endsWith("IOPS") ? unit[0] : `${quantity.title}, ${unit[0]}`) : `no ${quantity.title}`;
      for (const cell of cells) {
        const text = cell.lastElementChild;
        cell.dataset.default ??= cell.className;
        text.dataset.default ??= text.textContent;
        const value = quantity ? quantity.y[cell.dataset.row] : null;
        const bare = cell.dataset.default.replace(/ h\d/, "");
        cell.className = !quantity ? cell.dataset.default : value === null ? bare : `${bare} h${Math.min(report.shades - 1, Math.floor(report.shades * value / highest))}`;
        text.textContent = !quantity ? text.dataset.default : value === null ? "" : number(value / unit[1]);
      }
    }
  }
}

function rowsOf(article) {
  const cells = [...article.querySelectorAll("td[data-row]")].map((cell) => Number(cell.dataset.row));
  const marks = [...article.querySelectorAll(".chart")].flatMap((place) => report.figures[place.dataset.figure].results ?? []);
  return [...cells, ...marks.filter((row) => row !== null)];
}

function toolbar(article) {
  const own = rowsOf(article);
  const offered = Object.entries(report.quantities).filter(([, {y}]) => own.some((row) => y[row] !== null));
  if (!own.length) return;
  const sweep = article.dataset.sweep;
  const change = (more) => { switches.set(sweep, {...stateOf(article), ...more}); apply(article); remember(); };
  const button = (text, name, onclick) => element("button", {type: "button", "data-switch": name, "aria-pressed": "false", onclick}, text);
  const bar = element("div", {class: "switches", role: "group", "aria-label": `What the figures of ${sweep} show`},
    button("default", "", () => change({quantity: ""})),
    ...offered.map(([key, {title}]) => button(title, key, () => change({quantity: key}))));
  if (article.querySelector(".chart")) {
    bar.append(element("span", {class: "gap"}),
      button("log x", "log-x", () => change({linearX: !stateOf(article).linearX})),
      button("log y", "log-y", () => change({logY: !stateOf(article).logY})));
  }
  article.querySelector("h3").after(bar);
}

function apply(article, redraw = true) {
  const state = stateOf(article);
  for (const button of article.querySelectorAll("[data-switch]")) {
    const name = button.dataset.switch;
    const on = name === "log-x" ? !state.linearX : name === "log-y" ? state.logY : name === state.quantity;
    button.setAttribute("aria-pressed", String(on));
  }
  describe(article);
  recolor(article);
  if (redraw) drawAll(article);
}

// #figures?threads=p99,log-y&@theme=dark; commas need no escape in a fragment
function remember() {
  const told = new URLSearchParams();
  for (const [sweep, {quantity, logY, linearX}] of switches) {
    const words = [quantity, logY ? "log-y" : "", linearX ? "linear-x" : ""].filter(Boolean);
    if (words.length) told.set(sweep, words.join(","));
  }
  if (theme.chosen) told.set("@theme", theme.chosen);
  const anchor = location.hash.slice(1).split("?")[0];
  history.replaceState(null, "", `#${anchor}${told.size ? `?${String(told).replaceAll("%2C", ",")}` : ""}`);
}

function recall() {
  const [anchor, told] = location.hash.slice(1).split("?");
  if (told === undefined) return;
  switches.clear();
  for (const [sweep, text] of new URLSearchParams(told)) {
    const words = text.split(",");
    if (sweep === "@theme") theme.chosen = words[0];
    else switches.set(sweep, {quantity: words.find((word) => Object.hasOwn(report.quantities, word)) ?? "", logY: words.includes("log-y"), linearX: words.includes("linear-x")});
  }
  if (anchor) document.getElementById(anchor)?.scrollIntoView();
}

// The rules for a dark system hold for the page where the reader says so; paper is always light.
const darkRules = [...document.styleSheets[0].cssRules].filter((rule) => rule.media?.mediaText.includes("prefers-color-scheme"))
  .map((rule) => ({rule, system: rule.media.mediaText}));

function paint() {
  const dark = theme.chosen ? theme.chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  for (const {rule, system} of darkRules) rule.media.mediaText = {dark: "screen", light: "not all"}[theme.chosen] ?? system;
  document.documentElement.style.colorScheme = theme.chosen;
  document.getElementById("theme").setAttribute("aria-pressed", String(dark));
}

document.querySelector(".top nav").append(element("button", {
  type: "button", id: "theme", "aria-pressed": "false",
  onclick: (event) => {
    theme.chosen = event.currentTarget.getAttribute("aria-pressed") === "true" ? "light" : "dark";
    paint();
    remember();
  },
}, "dark"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);

const articles = [...document.querySelectorAll("article[data-sweep]")];
recall();
articles.forEach(toolbar);
articles.forEach((article) => apply(article, false));
paint();
addEventListener("hashchange", () => {
  if (location.hash.includes("?")) {
    recall();
    articles.forEach((article) => apply(article));
    paint();
  } else {
    remember(); // a link within the page has dropped it
  }
});

// A cell says why it is not valid on hover, on focus and on a tap; one of a heat map leads to its row.
let told = null;
function tell(cell) {
  told = cell;
  tip.hidden = false;
  tip.replaceChildren(element("div", {}, cell.dataset.tip));
  const [box, at] = [tip.getBoundingClientRect(), cell.getBoundingClientRect()];
  tip.style.left = `${Math.max(4, Math.min(at.left, innerWidth - box.width - 4))}px`;
  tip.style.top = `${at.bottom + box.height + 6 < innerHeight ? at.bottom + 4 : Math.max(4, at.top - box.height - 4)}px`;
}
// The page may scroll to a cell after it has the focus.
addEventListener("scroll", () => { if (told && !tip.hidden) tell(told); }, {passive: true});
function hush() {
  told = null;
  tip.hidden = true;
}
for (const map of document.querySelectorAll("table.grid")) {
  for (const event of ["pointerover", "focusin", "click"]) {
    map.addEventListener(event, ({target}) => { const cell = target.closest("[data-tip]"); if (cell) tell(cell); else hush(); });
  }
  for (const event of ["pointerleave", "focusout"]) map.addEventListener(event, hush);
}
addEventListener("keydown", (event) => { if (event.key === "Escape") hush(); });
for (const map of document.querySelectorAll("table.heat")) {
  map.addEventListener("dblclick", ({target}) => lead(target));
  map.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault(); // or it would close the row that gets the focus
    lead(event.target);
  });
}

function lead(target) {
  const row = target.closest("[data-row]")?.dataset.row;
  if (row === undefined) return;
  const entry = entries[row];
  if (!entry) return; // one that the table of this page leaves out
  Object.assign(state, {text: entry.row[columns.findIndex((column) => column.key === "point")], verdict: ""});
  document.getElementById("filter").value = state.text;
  show();
  if (!entry.behind) toggle(entry);
  entry.tr.scrollIntoView({block: "center"});
  entry.tr.querySelector(".open").focus();
}
