// Figures over time and latencies, behind the rows of the table of results.

function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Figures over the time of one repetition.
function overTime({repetition, drawings = [], elsewhere, none}) {
  const told = (text) => element("p", {class: "muted"}, text);
  if (none) return [told(`No figures over time: ${none}.`)];
  if (elsewhere) return [told(`Rates over time of repetition ${repetition}: in series.parquet, this page has those of other points.`)];
  if (!drawings.length) return [];
  return [told(`Over time, in repetition ${repetition}, the nearest to the figure:`), element("div", {class: "series"}, ...drawings.map(small))];
}

// A figure with lines from zero to its maximum, each from the middle of an interval to that of the next.
function small({title, unit, lines, left}) {
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
    ...lines.map((line, i) => svg("path", {class: `c${i}`, d: path(line)})));
  const names = lines.length > 1 || lines[0].name
    ? element("p", {}, ...lines.map((line, i) => element("span", {}, element("b", {class: `c${i}`}), line.name)), left ? `and ${left} between these` : null) : null;
  return element("figure", {}, element("h5", {}, title), drawn, element("p", {}, `${range}, ${when}`), names);
}

// The latencies of a row's repetitions by percentile: each nine more is as far as the one before, latencies are logarithmic.

function percentiles(i) {
  const {percents, of} = report.latencies;
  const own = of[i] ?? [];
  if (own.length < 2) return null;
  const [width, height] = [260, 110];
  const nines = (percent) => -Math.log10(1 - percent / 100);
  const [low, high] = [Math.floor(Math.log10(own[0])), Math.ceil(Math.log10(own.at(-1)))];
  const x = (percent) => (40 + (width - 56) * nines(percent) / nines(percents[own.length - 1])).toFixed(1);
  const y = (seconds) => (height - 18 - (height - 26) * (Math.log10(seconds) - low) / (high - low || 1)).toFixed(1);
  const latency = (seconds, digits) => {
    const [unit, size] = [["s", 1], ["ms", 1e-3], ["µs", 1e-6], ["ns", 1e-9]].find(([, least]) => seconds >= least * 0.9995) ?? ["ns", 1e-9];
    return `${digits ? +(seconds / size).toPrecision(digits) : number(seconds / size)} ${unit}`;
  };
  const told = percents.slice(0, own.length).map((percent, k) => [percent, latency(own[k])]).filter(([percent]) => [50, 90, 99, 99.9, 99.99, 99.999].includes(percent));
  const text = (attributes, words) => { const made = svg("text", attributes); made.textContent = words; return made; };
  const drawn = svg("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", class: "percentiles", "aria-label": `Latency by percentile: ${told.map(([p, t]) => `p${p} ${t}`).join(", ")}`},
    ...Array.from({length: high - low + 1}, (_, k) => 10 ** (low + k)).flatMap((seconds) => [
      svg("line", {x1: 40, x2: width, y1: y(seconds), y2: y(seconds)}), text({x: 36, y: +y(seconds) + 4, "text-anchor": "end"}, latency(seconds, 1))]),
    ...told.map(([percent]) => text({x: x(percent), y: height - 4, "text-anchor": "middle"}, String(percent))),
    svg("path", {class: "c0", d: "M" + own.map((seconds, k) => `${x(percents[k])} ${y(seconds)}`).join("L")}));
  return element("figure", {}, element("h5", {}, "Latency by percentile, all repetitions that count"), drawn,
    element("p", {}, told.map(([p, t]) => `p${p} ${t}`).join(", ")));
}
