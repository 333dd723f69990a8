// Figures behind the rows of the table of results: rates over time, the distribution of latencies.

const BOX = {width: 380, height: 170, left: 58, right: 22, top: 22, bottom: 38};

function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// A figure. Axes have a title and ticks [place from 0 to 1, text]; lines are lists of places [x, y], null where one breaks.
function plotted(title, told, across, up, lines, ...below) {
  const x = (place) => (BOX.left + (BOX.width - BOX.left - BOX.right) * place).toFixed(1);
  const y = (place) => (BOX.height - BOX.bottom - (BOX.height - BOX.top - BOX.bottom) * place).toFixed(1);
  const path = (places) => places.map((place, i) => (place ? `${places[i - 1] ? "L" : "M"}${x(place[0])} ${y(place[1])}` : "")).join("");
  const drawn = svg("svg", {viewBox: `0 0 ${BOX.width} ${BOX.height}`, role: "img", "aria-label": `${title}: ${told}`},
    svg("text", {x: 0, y: 11}, up.title),
    svg("text", {x: x(0.5), y: BOX.height - 4, "text-anchor": "middle"}, across.title),
    ...up.ticks.flatMap(([place, text]) => [
      svg("line", {x1: x(0), x2: x(1), y1: y(place), y2: y(place)}), svg("text", {x: BOX.left - 6, y: +y(place) + 4, "text-anchor": "end"}, text)]),
    ...across.ticks.map(([place, text]) => svg("text", {x: x(place), y: BOX.height - BOX.bottom + 15, "text-anchor": "middle"}, text)),
    ...lines.map((places, i) => svg("path", {class: `c${i}`, d: path(places)})));
  return element("figure", {}, element("h5", {}, title), drawn, element("p", {}, told), ...below);
}

// Round numbers from zero to the largest value or above.
function rounds(largest) {
  const power = 10 ** Math.floor(Math.log10((largest || 1) / 4));
  const step = power * [1, 2, 2.5, 5, 10].find((factor) => (largest || 1) <= 5 * power * factor);
  return Array.from({length: Math.ceil((largest || 1) / step) + 1}, (_, i) => Number((i * step).toPrecision(6)));
}

// Rates over the time of one repetition.
function overTime({title, unit, lines, left}, repetition) {
  const read = lines.flatMap((line) => line.values).filter((value) => value !== null);
  const [seconds, rates] = [Math.max(...lines.map((line) => line.begin_s + line.interval_s * line.values.length)), Math.max(...read)].map(rounds);
  const ticks = (values) => values.map((value) => [value / values.at(-1), value.toLocaleString("en")]);
  const places = ({begin_s: first, interval_s: step, values}) => values.flatMap((value, i) =>
    (value === null ? [null] : [0, 1].map((part) => [(first + (i + part) * step) / seconds.at(-1), value / rates.at(-1)])));
  const names = lines.length > 1 || lines[0].name
    ? element("p", {}, ...lines.map((line, i) => element("span", {}, element("b", {class: `c${i}`}), line.name)), left ? `and ${left} between these` : null) : null;
  return plotted(title, `${number(Math.min(...read))} to ${number(Math.max(...read))} ${unit} in repetition ${repetition}, the nearest to the result`,
    {title: "seconds", ticks: ticks(seconds)}, {title: unit, ticks: ticks(rates)}, lines.map(places), names);
}

// Latencies of all repetitions that count. Each nine more is as far as the one before, latencies are logarithmic.
function distribution(latencies) {
  const percents = report.latencies.percents.slice(0, latencies.length);
  const nines = (percent) => -Math.log10(1 - percent / 100);
  const [first, last] = [percents[0], percents.at(-1)].map(nines);
  const [low, high] = [Math.floor(Math.log10(latencies[0])), Math.max(Math.ceil(Math.log10(latencies.at(-1))), Math.floor(Math.log10(latencies[0])) + 1)];
  const x = (percent) => (nines(percent) - first) / (last - first);
  const y = (seconds) => (Math.log10(seconds) - low) / (high - low);
  const latency = (seconds, written = number) => {
    const [unit, size] = [["s", 1], ["ms", 1e-3], ["µs", 1e-6], ["ns", 1e-9]].find(([, least]) => seconds >= least * 0.9995) ?? ["ns", 1e-9];
    return `${written(seconds / size)} ${unit}`;
  };
  const named = percents.map((percent, i) => [percent, latencies[i]]).filter(([percent]) => [50, 90, 99, 99.9, 99.99].includes(percent));
  const next = report.latencies.percents[latencies.length];
  return plotted("Latency distribution, all repetitions", named.map(([percent, seconds]) => `p${percent} ${latency(seconds)}`).join(", ") + (next ? `; p${next} needs more I/Os` : ""),
    {title: "percentile", ticks: named.map(([percent]) => [x(percent), String(percent)])},
    {title: "latency, logarithmic", ticks: Array.from({length: high - low + 1}, (_, i) => [i / (high - low), latency(10 ** (low + i), Math.round)])},
    [latencies.map((seconds, i) => [x(percents[i]), y(seconds)])]);
}

function figuresOf({repetition, drawings = [], elsewhere, none}, latencies) {
  const told = none ? `No rates over time: ${none}.` : elsewhere ? `Rates over time of repetition ${repetition} are in series.parquet; this page has those of other points.` : "";
  const made = drawings.map((drawing) => overTime(drawing, repetition));
  if (latencies.length > 1) made.push(distribution(latencies));
  return [told ? element("p", {class: "muted"}, told) : null, element("div", {class: "series"}, ...made)];
}
