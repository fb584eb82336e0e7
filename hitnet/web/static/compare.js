// Two runs side by side: numbers, curves, prototypes, and what both say about the same image.

import { writeAddress } from "./address.js";
import { markVerdict } from "./answer.js";
import { ask } from "./api.js";
import { curves } from "./curves.js";
import { bdi, find, make, tell } from "./dom.js";
import { bytesFromBase64, paint, unpack } from "./picture.js";

const SIDES = ["a", "b"];
const DECODERS = { PaperDecoder: "the paper's", StandardisedDecoder: "standardised", PictureDecoder: "picture" };

export class Comparison {
  /** `asking` has the image that was asked about last. */
  constructor(root, asking) {
    this.root = root;
    this.asking = asking;
    this.model = asking.model;
    this.changed = () => {};
    this.index = 0;
    find(".another", root).addEventListener("click", () => {
      this.index = (this.index + 1) % this.tests;
      this.askBoth(this.index);
    });
  }

  title() {
    return "Compare runs";
  }

  /** Look for runs each time the view opens: another one may have finished. */
  async restore(state) {
    try {
      const { runs } = await ask("/api/runs");
      this.fill(runs, { a: state.get("first"), b: state.get("second") });
    } catch (error) {
      tell(error.message);
    }
  }

  /** Never a run with itself: what is chosen on one side cannot be chosen on the other. */
  fill(runs, wanted) {
    find(".only-one", this.root).hidden = runs.length > 1;
    if (runs.length < 2) return;
    const known = (id) => (runs.some((run) => run.id === id) ? id : null);
    const current = runs.find((run) => run.current) ?? runs[0];
    const a = known(wanted.a) ?? known(this.chosen?.a) ?? current.id;
    const first = runs.find((run) => run.id === a);
    const [next] = runs
      .filter((run) => run !== first)
      .sort((one, other) => !other.unreadable - !one.unreadable || (other.data === first.data) - (one.data === first.data));
    const b = [wanted.b, this.chosen?.b].find((id) => known(id) && id !== a) ?? next.id;
    this.selects = SIDES.map((side) =>
      make(
        "select",
        { onchange: () => this.choose({ a: this.selects[0].value, b: this.selects[1].value }) },
        ...runs.map((run) => make("option", { value: run.id, selected: run.id === { a, b }[side] }, title(run))),
      ),
    );
    find(".choices", this.root).replaceChildren(
      ...SIDES.map((side, place) =>
        make("label", { class: `run-choice side-${side}` }, make("span", {}, place ? "Second run" : "First run"), this.selects[place]),
      ),
    );
    this.choose({ a, b });
  }

  async choose(chosen) {
    this.chosen = chosen;
    this.selects.forEach((select, place) =>
      [...select.options].forEach((option) => (option.disabled = option.value === chosen[SIDES[1 - place]])),
    );
    if (!this.root.hidden) writeAddress("compare", { first: encodeURIComponent(chosen.a), second: encodeURIComponent(chosen.b) });
    try {
      const [a, b] = await Promise.all(SIDES.map((side) => ask(`/api/runs/one?id=${encodeURIComponent(chosen[side])}`)));
      if (chosen === this.chosen) this.show(a, b);
    } catch (error) {
      tell(error.message);
    }
  }

  show(a, b) {
    find(".compared", this.root).hidden = false;
    const differ = find(".differ", this.root);
    differ.hidden = a.data === b.data;
    differ.replaceChildren("The runs learned different data, ", bdi(a.data), " and ", bdi(b.data), ": their errors cannot be compared.");
    this.showNumbers(a, b);
    const chart = curves(a, b);
    find(".curves", this.root).replaceChildren(chart ?? make("p", { class: "status" }, "Neither run has recorded any epochs."));
    this.showPrototypes(a, b);
    this.runs = [a, b];
    this.askBoth();
  }

  /** The image that was asked about last, an example if there is none, or a test image: through both runs. */
  async askBoth(index = null) {
    const { chosen, runs } = this;
    const box = find(".same", this.root);
    try {
      const asked = index === null ? (this.asking.answer ?? (await ask("/api/example"))) : await ask(`/api/tests/one?index=${index}`);
      const fits = runs.every((run) => String(run.shape) === String(this.model.shape));
      find(".same-note", box).textContent = fits ? "" : "The runs take images of different size or colour, so no image goes through both.";
      find(".same-pictures", box).hidden = !fits;
      if (!fits) return;
      const body = bytesFromBase64(asked.pixels);
      const answers = await Promise.all(SIDES.map((side) => ask(
        `/api/runs/answer?id=${encodeURIComponent(chosen[side])}`,
        { method: "POST", body, headers: { "content-type": "application/octet-stream" } },
      )));
      this.tests ||= (await ask("/api/tests?limit=1")).total;
      find(".another", box).hidden = !this.tests;
      if (chosen === this.chosen) this.showBoth(asked, answers);
    } catch (error) {
      tell(error.message);
    }
  }

  showBoth(asked, answers) {
    const { model, runs } = this;
    const picture = (base64, words, shape) => {
      const canvas = make("canvas", { class: "picture", role: "img", "aria-label": words });
      paint(canvas, unpack(base64, shape)[0], shape);
      return canvas;
    };
    const truth = asked.label === null ? [] : [make("span", {}, "labelled ", bdi(model.classes[asked.label]))];
    find(".same-pictures", this.root).replaceChildren(
      make("figure", {}, picture(asked.pixels, "The image", model.shape), make("figcaption", {}, make("strong", {}, "The image"), make("span", {}, asked.note ?? ""), ...truth)),
      ...answers.map((answer, side) => {
        const sign = make("span", { class: "verdict-word" });
        if (answer.drawing) markVerdict(sign, answer.verdict);
        return make(
          "figure",
          { class: `side-${SIDES[side]}` },
          answer.drawing ? picture(answer.drawing, `The reconstruction by the ${side ? "second" : "first"} run`, runs[side].drawing) : make("div", { class: "missing picture" }),
          make(
            "figcaption", {},
            make("strong", { class: "same-class" }, bdi(answer.class)), answer.drawing ? sign : null, make("span", {}, answer.words),
          ),
        );
      }),
    );
  }

  showNumbers(a, b) {
    const number = (value, digits = 0) =>
      value === null ? "–" : value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
    const share = (value) => (value === null ? "–" : `${number(100 * value)} %`);
    const rows = [
      ["Test error", (run) => (run.error === null ? "–" : `${number(run.error, 2)} %`)],
      ["Network", (run) => bdi(run.model)],
      ["Data", (run) => bdi(run.data)],
      ["Decoder", (run) => DECODERS[run.decoder] ?? run.decoder ?? "none"],
      ["Epochs", (run) => number(run.epochs)],
      ["Training time", (run) => (run.seconds === null ? "–" : duration(run.seconds))],
      ["Parameters", (run) => number(run.parameters)],
      ["Prototypes in their hit zone, alone", (run) => share(run.quality.prototypes_hit)],
      ["Variation explained (R²)", (run) => number(run.quality.r2, 2)],
      ["Edges against real pictures", (run) => share(run.quality.edge_energy)],
    ];
    find(".numbers tbody", this.root).replaceChildren(
      ...rows.map(([name, text]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, text(a)), make("td", {}, text(b)))),
    );
  }

  showPrototypes(a, b) {
    const box = find(".pairs", this.root);
    const pictures = [a, b].map((run) => (run.prototypes === null ? null : unpack(run.prototypes, run.drawing)));
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
          if (there) paint(canvas, pictures[side][index], run.drawing);
          return canvas;
        });
        return make("li", { class: "pair-card" }, make("div", { class: "pair" }, ...canvases), make("span", { class: "class-name" }, bdi(name)));
      }),
    );
  }
}

function title(run) {
  return `${run.id}${run.error === null ? "" : ` · ${run.error.toFixed(2)} %`}${run.current ? " (this one)" : ""}${run.unreadable ? " (unreadable)" : ""}`;
}

function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}
