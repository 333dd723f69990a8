// The figures: the specification of the SVG and PNG files, made to fit the width there is.

const PANEL = {least: 300, around: 62, between: 26};
// ast: expressions are interpreted, not compiled, so that the policy can forbid eval.
const OPTIONS = {ast: true, renderer: "svg", actions: false, defaultStyle: false};
const views = new Map();

// Entries of a legend in one row as far as they fit: a wider legend would shrink the whole figure.
function narrowed(encoding, width) {
  const {legend, scale, title} = encoding?.color ?? {};
  if (!legend?.columns || !scale?.domain) return encoding;
  const entry = 34 + 7 * Math.max(...scale.domain.map((name) => name.length));
  const columns = Math.max(1, Math.floor((width - PANEL.around - 7 * (title?.length ?? 0)) / entry));
  return {...encoding, color: {...encoding.color, legend: {...legend, columns: Math.min(legend.columns, columns)}}};
}

// Panels side by side as far as they fit; each as wide as its share, less what stands around it.
function fitted(spec, width) {
  const columns = Math.max(1, Math.min(spec.columns, Math.floor(width / PANEL.least)));
  const share = (width - (columns - 1) * PANEL.between) / columns;
  const panels = spec.concat.map((panel) => {
    const names = panel.encoding.y.sort ?? []; // rows of a heat map, or of nodes
    const around = Math.max(PANEL.around, 16 + 7 * Math.max(...names.map((name) => name.length)));
    return {...panel, width: Math.max(160, Math.floor(share - around)), encoding: narrowed(panel.encoding, width)};
  });
  const {title, ...rest} = spec; // the page has it as a heading, and its own ground
  return {...rest, columns, concat: panels, config: {...spec.config, padding: 1, background: null}};
}

const tip = element("div", {id: "tip", role: "tooltip", hidden: ""});
document.body.append(tip);

// A tooltip of our own: plain text, and no style of a library's that the policy would have to allow.
function tooltip(handler, event, item, value) {
  tip.hidden = !value?.value;
  if (tip.hidden) return;
  const {value: figure, spread, measure, what, verdict, point, where} = value;
  tip.replaceChildren(
    element("b", {}, measure ? `${measure} ${figure}` : figure),
    ...[spread, what, where, verdict && shown(verdict, "verdict"), point].filter(Boolean)
      .map((line) => element("div", {}, line)));
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 4))}px`;
  tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - box.height - 4))}px`;
}

async function draw(place) {
  const figure = report.figures[place.dataset.figure];
  const width = place.clientWidth;
  views.get(place)?.result?.finalize();
  place.dataset.drawn = "";
  const spec = {...fitted(figure.spec, width), datasets: {values: figure.marks}};
  // Drawn beside the page and put in its place at once: whoever prints meanwhile gets one or the other.
  const canvas = element("div", {});
  const result = await vegaEmbed(canvas, spec, {...OPTIONS, tooltip});
  place.replaceChildren(canvas);
  views.set(place, {result, width});
}

function saveButton(place, type) {
  return element("button", {
    type: "button",
    onclick: async () => {
      // With the title, the notes, campaign, target and date, as the files in figures/ have them.
      const {spec, marks} = report.figures[place.dataset.figure];
      const {view, finalize} = await vegaEmbed(element("div", {}), {...spec, datasets: {values: marks}}, {...OPTIONS, tooltip});
      const url = await view.toImageURL(type, 2);
      finalize();
      element("a", {href: url, download: `${place.dataset.figure}.${type}`}).click();
    },
  }, type.toUpperCase());
}

// Those whose width has changed are drawn anew.
async function drawAll() {
  for (const place of document.querySelectorAll(".chart")) {
    if (!place.clientWidth || views.get(place)?.width === place.clientWidth) continue;
    const empty = !place.childElementCount;
    await draw(place);
    // Let the page answer in between; not at first, because it may be printed as soon as it is loaded.
    if (!empty) await new Promise((resolve) => setTimeout(resolve));
  }
  document.documentElement.dataset.drawn = "";
}

let waiting;
addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(() => drawAll(), 200); });
for (const place of document.querySelectorAll(".save")) place.append(saveButton(place, "svg"), saveButton(place, "png"));
drawAll().then(arrive);
