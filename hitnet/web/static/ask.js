// Ask about an image: where it comes from, and the question to the server.

import { writeAddress } from "./address.js";
import { AnswerView } from "./answer.js";
import { ask } from "./api.js";
import { calm, find, segments, tell } from "./dom.js";
import { FileSource } from "./file.js";
import { border } from "./ink.js";
import { Pad } from "./pad.js";
import { TestImages } from "./testset.js";

const PAUSE = 1500; // milliseconds after a stroke before the page moves on to the answer: a digit may need another one

export class Asking {
  /** `workbench` has the decoder and the components' names; `deform(class, capsule)` sets the sliders to an image. */
  constructor(root, workbench, deform) {
    this.root = root;
    this.decoder = workbench.decoder;
    this.model = workbench.model;
    this.changed = () => {};
    this.view = new AnswerView(root, workbench, deform);
    this.pad = new Pad(this.model, (blob) => this.upload(blob, { what: "the drawing", pause: PAUSE }), () => this.clear());
    this.tests = new TestImages(this.model, (index) => this.askTest(index));
    this.file = new FileSource(
      root, this.model,
      (blob, invert, what, note) => this.upload(blob, { what, invert, note, file: true }),
      () => this.choose("file"),
    );
    this.sources = { draw: this.pad.element, tests: this.tests.element, file: this.file.element };
    find(".source-choice", root).replaceChildren(
      segments("Where the image comes from", [["draw", "Draw"], ["tests", "Test images"], ["file", "File"]], "draw", (source) => this.open(source)),
    );
    find(".sources", root).replaceChildren(...Object.values(this.sources));
    find(".offer-button", root).addEventListener("click", () => this.file.turnOver());
    this.pad.canvas.addEventListener("pointerdown", () => clearTimeout(this.revealing));
    this.open("draw");
  }

  title() {
    return this.answer ? `Asked: ${this.model.classes[this.answer.class_index]}` : "Ask about an image";
  }

  /** Show the test image of an address, or at first an example. */
  restore(state) {
    const index = state.get("test");
    if (/^\d{1,9}$/.test(index ?? "")) this.askTest(Number(index), false);
    else if (!this.turn) this.request("/api/example", {}, { what: "the example", quiet: true });
  }

  open(source) {
    for (const [name, element] of Object.entries(this.sources)) element.hidden = name !== source;
    if (source === "tests") this.tests.refresh();
  }

  choose(source) {
    find(`.source-choice input[value="${source}"]`, this.root).checked = true;
    this.open(source);
  }

  askTest(index, reveal = true) {
    this.request(`/api/tests/one?index=${index}`, {}, { what: "the test image", quiet: !reveal, state: { test: String(index) } });
  }

  upload(blob, from) {
    const headers = { "content-type": "application/octet-stream" };
    this.request(`/api/explain?invert=${from.invert ? 1 : 0}`, { method: "POST", body: blob, headers }, from);
  }

  /** Only the answer to the newest request is shown, in whatever order the answers arrive. */
  async request(path, options, from) {
    const turn = (this.turn = (this.turn ?? 0) + 1);
    this.root.classList.add("busy");
    try {
      const answer = await ask(path, options);
      if (turn === this.turn) this.show(answer, from);
    } catch (error) {
      if (turn !== this.turn) return;
      this.clear(); // the former answer is not about this picture
      tell(`${from.what}: ${error.message}`);
    } finally {
      if (turn === this.turn) this.root.classList.remove("busy");
    }
  }

  show(answer, from) {
    find("#messages").replaceChildren();
    this.answer = { ...answer, note: [answer.note, from.note].filter(Boolean).join(", ") };
    find(".answer", this.root).dataset.of = from.what;
    this.view.show(this.answer);
    this.offerInversion(from);
    if (!this.root.hidden) writeAddress("ask", from.state ?? {});
    this.changed();
    clearTimeout(this.revealing);
    if (!from.quiet) this.revealing = setTimeout(() => this.reveal(), from.pause ?? 0);
  }

  /** Where the answer stands below the question, on a phone, bring it into view. */
  reveal() {
    const card = find(".answer-card", this.root);
    if (card.getBoundingClientRect().top > window.innerHeight * 0.6) {
      card.scrollIntoView({ behavior: calm() ? "auto" : "smooth", block: "start" });
    }
  }

  /** A file whose background is light where the network learned dark ones, or the other way round. */
  offerInversion(from) {
    const { model, decoder, view } = this;
    const learned = model.classes.reduce((sum, _, index) => sum + border(decoder.prototype(index), model.drawing), 0) / model.classes.length;
    const difference = border(view.image, model.shape) - learned;
    const offered = Boolean(from.file) && model.shape[0] === 1 && Math.abs(difference) > 0.5;
    find(".offer", this.root).hidden = !offered;
    if (!offered) return;
    const [here, there] = difference > 0 ? ["light", "dark"] : ["dark", "light"];
    find(".offer-words", this.root).textContent = `The background of this picture is ${here}; the network learned pictures with a ${there} one.`;
    find(".offer-button", this.root).textContent = this.file.inverted.checked ? "Do not invert it" : "Invert it";
  }

  clear() {
    this.turn = (this.turn ?? 0) + 1;
    this.root.classList.remove("busy");
    clearTimeout(this.revealing);
    this.answer = null;
    this.view.clear();
    writeAddress("ask", {});
    this.changed();
  }
}
