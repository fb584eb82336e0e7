// Two runs side by side: numbers, curves, prototypes.

import { ask } from "./api.js";
import { draw, find, make, tell } from "./dom.js";
import { paint, unpack } from "./picture.js";

const SIDES = ["a", "b"];
const DECODERS = { PaperDecoder: "the paper's", StandardisedDecoder: "standardised", PictureDecoder: "picture" };

export class Comparison {
  constructor(root) {
    this.root = root;
    this.loaded = {};
  }

  /** Look for runs each time the view opens: another one may have finished. */
  async open() {
    try {
      const { runs } = await ask("/api/runs");
      this.fill(runs);
    } catch (error) {
      tell(error.message);
    }
  }

  fill(runs) {
    const current = runs.find((run) => run.current) ?? runs[0];
    const alike = runs.filter((run) => run !== current && !run.unreadable).sort((first, second) => (second.data === current.data) - (first.data === current.data));
    const chosen = { a: this.chosen?.a ?? current.id, b: this.chosen?.b ?? (alike[0] ?? current).id };
    find(".only-one", this.root).hidden = runs.length > 1;
    find(".choices", this.root).replaceChildren(
      ...SIDES.map((side) =>
        make(
          "label",
          { class: `run-choice side-${side}` },
          make("span", {}, side === "a" ? "First run" : "Second run"),
          make(
            "select",
            { onchange: (event) => this.choose({ ...this.chosen, [side]: event.target.value }) },
            ...runs.map((run) => make("option", { value: run.id, selected: run.id === chosen[side] }, title(run))),
          ),
        ),
      ),
    );
    this.choose(chosen);
  }

  async choose(chosen) {
    this.chosen = chosen;
    try {
      const [a, b] = await Promise.all(SIDES.map((side) => ask(`/api/runs/one?id=${encodeURIComponent(chosen[side])}`)));
      if (chosen === this.chosen) this.show(a, b);
    } catch (error) {
      tell(error.message);
    }
  }

  show(a, b) {
    find(".compared", this.root).hidden = false;
    this.showNumbers(a, b);
    const chart = curves(a, b);
    find(".curves", this.root).replaceChildren(chart ?? make("p", { class: "status" }, "Neither run has recorded any epochs."));
    this.showPrototypes(a, b);
  }

  showNumbers(a, b) {
    const number = (value, digits = 0) =>
      value === null ? "–" : value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
    const rows = [
      ["Test error", (run) => (run.error === null ? "–" : `${number(run.error, 2)} %`)],
      ["Network", (run) => run.model],
      ["Data", (run) => run.data],
      ["Decoder", (run) => DECODERS[run.decoder] ?? run.decoder ?? "none"],
      ["Epochs", (run) => number(run.epochs)],
      ["Training time", (run) => (run.seconds === null ? "–" : duration(run.seconds))],
      ["Parameters", (run) => number(run.parameters)],
    ];
    find(".numbers tbody", this.root).replaceChildren(
      ...rows.map(([name, text]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, text(a)), make("td", {}, text(b)))),
    );
  }

  showPrototypes(a, b) {
    const box = find(".pairs", this.root);
    const pictures = [a, b].map((run) => (run.prototypes === null ? null : unpack(run.prototypes, run.shape)));
    const why = [a, b].map((run, side) => (run.prototypes === null ? `${side ? "Second" : "First"} run: ${run.why}.` : null)).filter(Boolean);
    find(".pairs-note", this.root).textContent = why.join(" ");
    const names = [...new Set([...a.classes, ...b.classes])];
    box.replaceChildren(
      ...names.map((name) => {
        const canvases = [a, b].map((run, side) => {
          const index = run.classes.indexOf(name);
          const canvas = make("canvas", { class: `picture side-${SIDES[side]}`, role: "img", width: 1, height: 1 });
          const there = pictures[side] !== null && index >= 0;
          canvas.setAttribute("aria-label", `${name}, ${side ? "second" : "first"} run${there ? "" : ": no prototype"}`);
          canvas.classList.toggle("missing", !there);
          if (there) paint(canvas, pictures[side][index], run.shape);
          return canvas;
        });
        return make("li", { class: "pair-card" }, make("div", { class: "pair" }, ...canvases), make("span", { class: "class-name" }, name));
      }),
    );
  }
}

/** Test error by epoch of both runs, on a logarithmic scale unless an error is 0. */
function curves(a, b) {
  const lines = [a, b].map((run) => run.curves.test_error ?? run.curves.validation_error ?? []);
  const all = lines.flat();
  if (!all.length) return null;
  const [width, height, left, right, top, bottom] = [640, 370, 52, 120, 14, 44];
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
    draw("text", { x: x(epoch), y: height - bottom + 20, "text-anchor": "middle", class: "epoch" }, String(epoch)),
  );
  const ends = lines.map((line) => (line.length ? y(line.at(-1)[1]) : null));
  if (ends[0] !== null && ends[1] !== null && Math.abs(ends[0] - ends[1]) < 18) {
    const middle = (ends[0] + ends[1]) / 2;
    const up = ends[0] <= ends[1] ? 0 : 1;
    ends[up] = middle - 9;
    ends[1 - up] = middle + 9;
  }
  const drawn = lines.map((line, side) =>
    line.length
      ? draw("g", { class: `curve side-${SIDES[side]}` },
          draw("polyline", { points: line.map(([epoch, error]) => `${x(epoch)},${y(error)}`).join(" ") }),
          ...line.map(([epoch, error]) => draw("circle", { cx: x(epoch), cy: y(error), r: 3 }, draw("title", {}, `epoch ${epoch}: ${error.toFixed(2)} %`))),
          draw("text", { x: x(line.at(-1)[0]) + 10, y: ends[side] + 4 }, `${side ? "second" : "first"} ${line.at(-1)[1].toFixed(2)} %`))
      : null,
  );
  const words = lines.map((line, side) => `${side ? "second" : "first"} run ${line.length ? `ends at ${line.at(-1)[1].toFixed(2)} %` : "has none"}`);
  return draw("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": `Test error by epoch: ${words.join(", ")}` },
    ...heights, ...epochs, ...drawn,
    draw("text", { x: (left + width - right) / 2, y: height - 2, "text-anchor": "middle", class: "axis" }, "epoch"));
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
    return values.filter((value) => Math.log10(value) >= low && Math.log10(value) <= high);
  }
  const step = 10 ** Math.floor(Math.log10((high - low) / 2));
  return Array.from({ length: Math.floor(high / step) + 1 }, (_, i) => Number((i * step).toPrecision(3)))
    .filter((value) => value >= low)
    .filter((_, i, visible) => i % Math.ceil(visible.length / 6) === 0);
}

function title(run) {
  return `${run.id}${run.error === null ? "" : ` · ${run.error.toFixed(2)} %`}${run.current ? " (this one)" : ""}${run.unreadable ? " (unreadable)" : ""}`;
}

function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}
