// The answer about an image: the class and how sure it is, the way into its numbers, and what can be made of them.

import { bdi, find, idle, make, signed } from "./dom.js";
import { centre } from "./geometry.js";
import { hybrid, randomMoves } from "./hybrid.js";
import { way } from "./idea.js";
import { meanDifference, paint, paintResidual, savePng, unpack } from "./picture.js";
import { distanceList, target } from "./rings.js";
import { WhatIf } from "./whatif.js";

const STRONGEST = 6;
const HYBRIDS = 12;

/** A verdict as a small sign: sure, ambiguous, unknown, or that the run has no radius to tell. */
export function markVerdict(sign, verdict) {
  sign.textContent = verdict ?? "not calibrated";
  sign.dataset.verdict = verdict ?? "none";
}

export class AnswerView {
  constructor(root, workbench, deform) {
    this.root = root;
    this.workbench = workbench;
    this.decoder = workbench.decoder;
    this.model = workbench.model;
    this.deform = deform;
    this.whatIf = new WhatIf(find(".what-if", root), this.decoder);
  }

  clear() {
    find(".no-answer", this.root).hidden = false;
    find(".answer", this.root).hidden = true;
  }

  show(answer) {
    const { model, decoder } = this;
    [this.image] = unpack(answer.pixels, model.shape);
    [this.small] = unpack(answer.small, model.drawing); // to compare with drawings
    this.answer = answer;
    const drawing = decoder.draw(answer.class_index, answer.capsule);
    find(".no-answer", this.root).hidden = true;
    const box = find(".answer", this.root);
    box.hidden = false;
    box.dataset.class = model.classes[answer.class_index];
    box.dataset.verdict = answer.verdict ?? "none";
    this.showVerdict(answer);
    this.showWay(answer);
    this.showPictures(drawing, answer);
    find(".rings", this.root).replaceChildren(target(model, answer.scores, answer.class_index));
    find(".ring-list", this.root).replaceChildren(distanceList(model, answer.scores, answer.class_index, answer.label));
    this.whatIf.show(answer);
    this.showStrongest(answer);
    this.showHybrids();
  }

  /** The class leads; how sure it is comes after it. */
  showVerdict(answer) {
    const name = this.model.classes[answer.class_index];
    markVerdict(find(".verdict-word", this.root), answer.verdict);
    find(".verdict-title", this.root).replaceChildren(bdi(name));
    find(".verdict-words", this.root).textContent = answer.words;
    const truth = find(".verdict-truth", this.root);
    const known = answer.label !== null;
    truth.hidden = !known;
    if (known) {
      const right = answer.label === answer.class_index;
      truth.dataset.right = right;
      truth.replaceChildren("The label says ", bdi(this.model.classes[answer.label]), right ? " too." : ": a mistake.");
    }
    const note = find(".verdict-note", this.root);
    note.hidden = !answer.note;
    note.textContent = answer.note ? `${answer.note[0].toUpperCase()}${answer.note.slice(1)}.` : "";
  }

  showWay(answer) {
    const { model, workbench, image } = this;
    const seen = make("canvas", { class: "picture seen", role: "img", "aria-label": "The image as the network sees it" });
    paint(seen, image, model.shape);
    find(".asked-way", this.root).replaceChildren(
      way(model, {
        picture: seen, title: ["as the network sees it"], capsule: answer.capsule, scores: answer.scores, classIndex: answer.class_index,
        nameOf: (component) => workbench.nameOf(answer.class_index, component),
      }),
    );
  }

  showPictures(drawing, answer) {
    const { model, small } = this;
    const [drawn, rest] = ["drawn", "rest"].map((name) => make("canvas", { class: `picture ${name}`, role: "img" }));
    paint(drawn, drawing, model.drawing);
    paintResidual(rest, small, drawing, model.drawing);
    const left = (100 * meanDifference(small, drawing)).toFixed(1);
    find(".residual-key", this.root).textContent =
      model.shape[0] === 3
        ? "Residual: image minus reconstruction; grey is no difference."
        : "Residual: orange where the image is brighter, blue where the reconstruction is.";
    find(".drawn-back", this.root).replaceChildren(
      ...[
        [drawn, "Reconstruction", `drawn from the ${model.dims} numbers`],
        [rest, "Residual", `${left} % per pixel`],
      ].map(([canvas, title, text]) => {
        canvas.setAttribute("aria-label", `${title}: ${text}`);
        return make("figure", {}, canvas, make("figcaption", {}, make("strong", {}, title), make("span", {}, text)));
      }),
    );
    find(".to-sliders", this.root).onclick = () => this.deform(answer.class_index, answer.capsule);
    find(".save-drawing", this.root).onclick = () => savePng(drawn, `reconstruction-${model.classes[answer.class_index]}`);
  }

  showStrongest(answer) {
    const { model, decoder, workbench } = this;
    find(".strongest", this.root).replaceChildren(
      ...answer.deformations.slice(0, STRONGEST).map(({ component, units, change }) => {
        const capsule = centre(model);
        capsule[component] = answer.capsule[component];
        const [before, after] = [0, 1].map(() => make("canvas", { class: "picture", "aria-hidden": "true" }));
        paint(before, decoder.prototype(answer.class_index), model.drawing);
        paint(after, decoder.draw(answer.class_index, capsule), model.drawing);
        return make(
          "li",
          { class: "deformation" },
          make("div", { class: "pair" }, before, make("span", { class: "arrow", "aria-hidden": "true" }, "→"), after),
          make("strong", {}, bdi(workbench.nameOf(answer.class_index, component))),
          make("span", {}, `${signed(units)} units, changes pixels by ${(100 * change).toFixed(1)} %`),
        );
      }),
    );
  }

  showHybrids() {
    const { model } = this;
    const slider = find(".strength", this.root);
    this.moves = Array.from({ length: HYBRIDS }, () => randomMoves(model.dims));
    this.tiles = this.moves.map(() => make("canvas", { class: "picture" }));
    find(".hybrids", this.root).replaceChildren(...this.tiles.map((canvas) => make("li", {}, canvas)));
    slider.oninput = () => this.drawHybrids();
    find(".shuffle", this.root).onclick = () => {
      this.moves = this.moves.map(() => randomMoves(model.dims));
      this.drawHybrids();
    };
    this.drawHybrids();
  }

  /** Moves the capsule of the true class if the label is known, otherwise that of the predicted class. */
  async drawHybrids() {
    const { model, decoder, answer, small } = this;
    const turn = (this.drawing = (this.drawing ?? 0) + 1);
    const units = Number(find(".strength", this.root).value);
    const tweak = units * model.unit;
    const index = answer.label ?? answer.class_index;
    const capsule = answer.label_capsule ?? answer.capsule;
    const text = `${units.toFixed(1)} units: each component moves by at most ${tweak.toFixed(3)}`;
    find(".strength-value", this.root).textContent = units === 1 ? `${text} (m/√n, as in the paper)` : text;
    let since = performance.now();
    for (const [place, canvas] of this.tiles.entries()) {
      paint(canvas, hybrid(decoder, index, capsule, small, this.moves[place], tweak), model.drawing);
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `New image ${place + 1} of class ${model.classes[index]}`);
      if (performance.now() - since > 24) {
        await idle();
        if (turn !== this.drawing) return;
        since = performance.now();
      }
    }
  }
}
