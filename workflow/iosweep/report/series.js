// Figures over time and rates of nodes and workers, behind the rows of the table of results.

function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Figures over the time of one repetition, and the rates of its nodes and workers.
function overTime({repetition, drawings = [], rates = [], rates_left: left, elsewhere, none}) {
  const told = (text) => element("p", {class: "muted"}, text);
  if (none) return [told(`No figures over time: ${none}.`)];
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
