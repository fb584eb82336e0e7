// Test error by epoch of two runs, as a chart.

import { draw } from "./dom.js";

/** Test error by epoch of both runs, on a logarithmic scale unless an error is 0. */
export function curves(a, b) {
  const lines = [a, b].map((run) => run.curves.test_error ?? run.curves.validation_error ?? []);
  const all = lines.flat();
  if (!all.length) return null;
  const [width, height, left, right, top, bottom] = [640, 370, 64, 100, 24, 58];
  const positive = all.every(([, error]) => error > 0);
  const scale = positive ? Math.log10 : (value) => value;
  const [low, high] = range(all.map(([, error]) => scale(error)), positive);
  const last = Math.max(2, ...all.map(([epoch]) => epoch));
  const x = (epoch) => left + ((width - left - right) * (epoch - 1)) / (last - 1);
  const y = (error) => top + (height - top - bottom) * (1 - (scale(error) - low) / (high - low));
  const heights = ticks(low, high, positive).map((value) =>
    draw("g", { class: "tick" },
      draw("line", { x1: left, x2: width - right, y1: y(value), y2: y(value) }),
      draw("text", { x: left - 10, y: y(value) + 4, "text-anchor": "end" }, String(value))),
  );
  const epochs = [...new Set([1, Math.round((1 + last) / 2), last])].map((epoch) =>
    draw("text", { x: x(epoch), y: height - bottom + 24, "text-anchor": "middle", class: "epoch" }, String(epoch)),
  );
  const ends = lines.map((line) => (line.length ? y(line.at(-1)[1]) : null));
  if (ends[0] !== null && ends[1] !== null && Math.abs(ends[0] - ends[1]) < 24) {
    const middle = (ends[0] + ends[1]) / 2;
    const up = ends[0] <= ends[1] ? 0 : 1;
    ends[up] = middle - 12;
    ends[1 - up] = middle + 12;
  }
  const drawn = lines.map((line, side) =>
    line.length
      ? draw("g", { class: `curve side-${side ? "b" : "a"}` },
          draw("polyline", { points: line.map(([epoch, error]) => `${x(epoch)},${y(error)}`).join(" ") }),
          ...line.map(([epoch, error]) => draw("circle", { cx: x(epoch), cy: y(error), r: 3 }, draw("title", {}, `epoch ${epoch}: ${error.toFixed(2)} %`))),
          draw("text", { x: x(line.at(-1)[0]) + 10, y: ends[side] + 4 }, `${line.at(-1)[1].toFixed(2)} %`))
      : null,
  );
  const words = lines.map((line, side) => `${side ? "second" : "first"} run ${line.length ? `ends at ${line.at(-1)[1].toFixed(2)} %` : "has none"}`);
  return draw("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": `Test error by epoch: ${words.join(", ")}` },
    ...heights, ...epochs, ...drawn,
    draw("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle", class: "axis" }, "epoch"));
}

function range(values, logarithmic) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const margin = Math.max(0.06 * (high - low), logarithmic ? 0.06 : 0.05);
  return [logarithmic ? low - margin : Math.max(0, low - margin), high + margin];
}

function ticks(low, high, logarithmic) {
  if (logarithmic) {
    const values = [];
    for (let power = Math.floor(low); power <= Math.ceil(high); power++) {
      for (const digit of [1, 2, 5]) values.push(Number((digit * 10 ** power).toPrecision(2)));
    }
    const visible = values.filter((value) => Math.log10(value) >= low && Math.log10(value) <= high);
    return visible.length > 2 ? visible : ticks(10 ** low, 10 ** high, false);
  }
  const least = (high - low) / 8;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((value) => value >= least);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(3)));
}
