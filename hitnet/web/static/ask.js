// Ask about an image: choose or draw one, see where it lands, deform it, make new images from it.

import { ask } from "./api.js";
import { centre } from "./decoder.js";
import { find, idle, make, segments, signed, tell } from "./dom.js";
import { hybrid, randomMoves } from "./hybrid.js";
import { Pad } from "./pad.js";
import { meanDifference, paint, paintResidual, savePng, unpack } from "./picture.js";
import { distanceList, target } from "./rings.js";
import { TestImages } from "./testset.js";
import { WhatIf } from "./whatif.js";

const LARGEST = 10_000_000;
const STRONGEST = 6;
const HYBRIDS = 12;

export class Asking {
  /** `workbench` has the decoder and the components' names; `deform(class, capsule)` sets the sliders to an image. */
  constructor(root, workbench, deform) {
    this.root = root;
    this.workbench = workbench;
    this.decoder = workbench.decoder;
    this.model = workbench.model;
    this.deform = deform;
    this.whatIf = new WhatIf(find(".what-if", root), this.decoder);
    this.pad = new Pad(this.model, (blob) => this.askAbout(blob, "the drawing"));
    this.tests = new TestImages(this.model, (index) => this.request(`/api/tests/one?index=${index}`, {}, "the test image"));
    this.sources = { draw: this.pad.element, tests: this.tests.element, file: this.makeDrop() };
    find(".source-choice", root).replaceChildren(
      segments("Where the image comes from", [["draw", "Draw"], ["tests", "Test images"], ["file", "File"]], "draw", (source) => this.open(source)),
    );
    find(".sources", root).replaceChildren(...Object.values(this.sources));
    this.open("draw");
  }

  open(source) {
    for (const [name, element] of Object.entries(this.sources)) element.hidden = name !== source;
    if (source === "tests") this.tests.refresh();
  }

  makeDrop() {
    const input = make("input", { type: "file", accept: "image/png,image/jpeg,image/webp,image/bmp,image/gif", class: "file-input" });
    this.inverted = make("input", { type: "checkbox" });
    input.addEventListener("change", () => {
      if (input.files.length) this.askAbout(input.files[0], input.files[0].name);
      input.value = "";
    });
    this.inverted.addEventListener("change", () => this.file && this.askAbout(this.file, this.file.name));
    const zone = make(
      "label",
      { class: "drop" },
      input,
      make("strong", {}, "Drop a picture here"),
      make("span", {}, "or choose a file: PNG, JPEG, WebP, BMP or GIF, up to 10 MB. It stays on this computer and is not saved."),
    );
    const view = this.root;
    for (const kind of ["dragenter", "dragover"]) {
      view.addEventListener(kind, (event) => {
        event.preventDefault();
        zone.classList.add("over");
      });
    }
    view.addEventListener("dragleave", () => zone.classList.remove("over"));
    view.addEventListener("drop", (event) => {
      event.preventDefault();
      zone.classList.remove("over");
      const file = event.dataTransfer?.files[0];
      if (!file) return;
      const choice = find('.source-choice input[value="file"]', view);
      choice.checked = true;
      this.open("file");
      this.askAbout(file, file.name);
    });
    return make("div", { class: "drop-box" }, zone, make("label", { class: "inline check" }, this.inverted, "Invert it (dark ink on white paper)"));
  }

  askAbout(blob, what) {
    if (blob.size > LARGEST) {
      tell(`${what} has ${(blob.size / 1e6).toFixed(1)} MB; the limit is 10 MB. Make it smaller first.`);
      return;
    }
    const file = blob instanceof File;
    if (file) this.file = blob;
    const invert = file && this.inverted.checked ? 1 : 0;
    this.request(`/api/explain?invert=${invert}`, { method: "POST", body: blob, headers: { "content-type": "application/octet-stream" } }, what);
  }

  /** Only the answer to the newest request is shown, in whatever order the answers arrive. */
  async request(path, options, what) {
    const turn = (this.turn = (this.turn ?? 0) + 1);
    this.root.classList.add("busy");
    try {
      const answer = await ask(path, options);
      if (turn === this.turn) this.show(answer);
    } catch (error) {
      if (turn === this.turn) tell(`${what}: ${error.message}`);
    } finally {
      if (turn === this.turn) this.root.classList.remove("busy");
    }
  }

  show(answer) {
    const { model, decoder } = this;
    find("#messages").replaceChildren();
    const [image] = unpack(answer.pixels, model.shape);
    const drawing = decoder.draw(answer.class_index, answer.capsule);
    this.answer = { ...answer, image };
    find(".no-answer", this.root).hidden = true;
    const box = find(".answer", this.root);
    box.hidden = false;
    box.dataset.class = model.classes[answer.class_index];
    box.dataset.verdict = answer.verdict;
    this.showVerdict(answer);
    this.showPictures(image, drawing, answer);
    find(".rings", this.root).replaceChildren(target(model, answer.scores, answer.class_index));
    find(".ring-list", this.root).replaceChildren(distanceList(model, answer.scores, answer.class_index, answer.label));
    this.whatIf.show(answer);
    this.showStrongest(answer);
    this.showHybrids();
  }

  showVerdict(answer) {
    const name = this.model.classes[answer.class_index];
    const title = { sure: `This is ${name}`, unknown: `Unknown; closest to ${name}`, ambiguous: `Ambiguous: ${name} or ${this.model.classes[answer.rival_index]}` };
    find(".verdict-word", this.root).textContent = answer.verdict;
    find(".verdict-word", this.root).dataset.verdict = answer.verdict;
    find(".verdict-title", this.root).textContent = title[answer.verdict] ?? name;
    find(".verdict-words", this.root).textContent = answer.words;
    const truth = find(".verdict-truth", this.root);
    const known = answer.label !== null;
    truth.hidden = !known;
    if (known) {
      const right = answer.label === answer.class_index;
      truth.dataset.right = right;
      truth.textContent = right ? `The label says ${name} too.` : `The label says ${this.model.classes[answer.label]}: a mistake.`;
    }
    const note = find(".verdict-note", this.root);
    note.hidden = !answer.note;
    note.textContent = answer.note ? `${answer.note[0].toUpperCase()}${answer.note.slice(1)}.` : "";
  }

  showPictures(image, drawing, answer) {
    const { model } = this;
    const box = find(".triptych", this.root);
    const [seen, drawn, rest] = ["seen", "drawn", "rest"].map((name) => make("canvas", { class: `picture ${name}`, role: "img" }));
    paint(seen, image, model.shape);
    paint(drawn, drawing, model.shape);
    paintResidual(rest, image, drawing, model.shape);
    const left = (100 * meanDifference(image, drawing)).toFixed(1);
    find(".residual-key", this.root).textContent =
      model.shape[0] === 3
        ? "Residual: image minus reconstruction; grey is no difference."
        : "Residual: orange where the image is brighter, blue where the reconstruction is.";
    box.replaceChildren(
      ...[
        [seen, "The image", "as the network sees it"],
        [drawn, "Reconstruction", `drawn from ${model.dims} numbers`],
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
        paint(before, decoder.prototype(answer.class_index), model.shape);
        paint(after, decoder.draw(answer.class_index, capsule), model.shape);
        return make(
          "li",
          { class: "deformation" },
          make("div", { class: "pair" }, before, make("span", { class: "arrow", "aria-hidden": "true" }, "→"), after),
          make("strong", {}, workbench.nameOf(answer.class_index, component)),
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
    const { model, decoder, answer } = this;
    const turn = (this.drawing = (this.drawing ?? 0) + 1);
    const units = Number(find(".strength", this.root).value);
    const tweak = units * model.unit;
    const index = answer.label ?? answer.class_index;
    const capsule = answer.label_capsule ?? answer.capsule;
    const text = `${units.toFixed(1)} units: each component moves by at most ${tweak.toFixed(3)}`;
    find(".strength-value", this.root).textContent = units === 1 ? `${text} (m/√n, as in the paper)` : text;
    let since = performance.now();
    for (const [place, canvas] of this.tiles.entries()) {
      paint(canvas, hybrid(decoder, index, capsule, answer.image, this.moves[place], tweak), model.shape);
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
