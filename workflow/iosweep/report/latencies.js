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
