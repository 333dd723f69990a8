// Switches: another quantity in all figures of a sweep, and the dark page.

const switches = new Map(); // sweep -> the quantity that its figures show; none: the planned one

function pickUnit(units, largest) {
  return units.findLast(([, size, least]) => Math.abs(largest) >= size * least) ?? units[0];
}

function unitOf(quantity, rows) {
  const known = rows.map((row) => quantity.y[row]).filter((value) => value !== null && value !== undefined);
  if (!known.length) return null;
  return pickUnit(report.kinds[rows[0]] === "m" ? quantity.metadata_units : quantity.units, Math.max(...known));
}

function quantityOf(place) {
  return switches.get(place.closest("[data-sweep]").dataset.sweep) ?? "";
}

// The figure of a place as its switches want it: its specification and marks; null where it has no such quantity.
function switched(place, figure) {
  const key = quantityOf(place);
  if (!figure.results || !key) return {spec: figure.spec, marks: figure.marks};
  const spec = structuredClone(figure.spec);
  const marks = marksOf(key, spec, figure.marks.map((mark, i) => ({...mark, row: figure.results[i]})));
  return marks.some((mark) => Number.isFinite(mark.y)) ? {spec, marks} : null;
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
      encoding.y.title = name.endsWith("IOPS") ? name : `${key} (${name})`;
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

// Heading and caption of a switched figure; the others of its slice would repeat it.
function describe(article) {
  const key = quantityOf(article);
  const seen = new Set();
  for (const figure of article.querySelectorAll("figure[data-slice]")) {
    figure.hidden = Boolean(key) && seen.has(figure.dataset.slice);
    seen.add(figure.dataset.slice);
    const [heading, caption] = [figure.querySelector("h4").firstChild, figure.querySelector("figcaption")];
    figure.dataset.title ??= heading.textContent;
    figure.dataset.caption ??= caption.textContent;
    const against = figure.dataset.title.slice(figure.dataset.title.indexOf(" against "));
    const phase = figure.dataset.title.includes(": ") ? `${figure.dataset.title.split(": ")[0]}: ` : "";
    const how = key.startsWith("p") ? "Median of the repetitions' percentiles" : "Mean of the repetitions";
    heading.textContent = key ? `${phase}${key}${against}` : figure.dataset.title;
    caption.textContent = key ? `${how}; bars: smallest and largest repetition. Hollow: not valid. Results without ${key} are not drawn.` : figure.dataset.caption;
  }
}

function toolbar(article) {
  const drawn = [...article.querySelectorAll(".chart")].flatMap((place) => report.figures[place.dataset.figure].results ?? []);
  const offered = Object.entries(report.quantities).filter(([, {y}]) => drawn.some((row) => row !== null && y[row] !== null));
  if (!offered.length) return;
  const buttons = ["", ...offered.map(([key]) => key)].map((key) =>
    element("button", {type: "button", "data-switch": key, "aria-pressed": String(!key), onclick: () => choose(article, key)}, key || "default"));
  article.querySelector("h3").after(element("div", {class: "switches", role: "group", "aria-label": `What the figures of ${article.dataset.sweep} show`}, ...buttons));
}

function choose(article, key) {
  switches.set(article.dataset.sweep, key);
  for (const button of article.querySelectorAll("[data-switch]")) button.setAttribute("aria-pressed", String(button.dataset.switch === key));
  describe(article);
  drawAll(article);
}

document.querySelectorAll("article[data-sweep]").forEach(toolbar);

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
