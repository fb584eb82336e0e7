// What would make it another class: the nearest picture of that class, and a slider that leads there.

import { ask } from "./api.js";
import { bdi, find, make, tell } from "./dom.js";
import { bytesFromBase64, grey, largestDifference, paint, paintResidual } from "./picture.js";

export class WhatIf {
  constructor(root, decoder) {
    this.root = root;
    this.decoder = decoder;
    this.model = decoder.model;
    this.choice = find(".what-if-class", root);
    this.slider = find(".what-if-slider", root);
    this.slider.addEventListener("input", () => this.move());
    this.choice.addEventListener("change", () => this.choose(Number(this.choice.value)));
  }

  /** Begin with the next best class of a new answer. */
  show(answer) {
    this.turn = (this.turn ?? 0) + 1;
    this.answer = answer;
    this.choice.replaceChildren(
      ...this.model.classes.flatMap((name, index) => (index === answer.class_index ? [] : make("option", { value: index }, name))),
    );
    this.fill(answer.what_if);
  }

  /** Only the newest choice is shown, in whatever order the answers arrive. */
  async choose(index) {
    const turn = (this.turn += 1);
    this.root.classList.add("busy");
    try {
      const body = bytesFromBase64(this.answer.pixels);
      const found = await ask(`/api/what-if?class=${index}`, { method: "POST", body, headers: { "content-type": "application/octet-stream" } });
      if (turn === this.turn) this.fill(found);
    } catch (error) {
      if (turn === this.turn) tell(error.message);
    } finally {
      if (turn === this.turn) this.root.classList.remove("busy");
    }
  }

  fill(found) {
    const { model, answer, decoder } = this;
    this.root.classList.remove("busy");
    this.choice.value = found.class_index;
    this.name = model.classes[found.class_index];
    this.way = [[answer.class_index, answer.capsule], [found.class_index, found.capsule]];
    const [now, then] = this.way.map((end) => decoder.draw(...end));
    const [own, other, change] = ["own", "other", "change"].map((name) => find(`.${name}`, this.root));
    paint(own, now, model.drawing);
    own.setAttribute("aria-label", `The reconstruction of the image, ${model.classes[answer.class_index]}`);
    paint(other, then, model.drawing);
    other.setAttribute("aria-label", `The nearest picture of ${this.name}`);
    find(".other-title", this.root).replaceChildren("Nearest ", bdi(this.name));
    const shape = [1, model.drawing[1], model.drawing[2]];
    const [from, to] = [now, then].map((pixels) => grey(pixels, model.drawing));
    paintResidual(change, to, from, shape, Math.max(0.25, largestDifference(from, to)));
    find(".what-if-words", this.root).textContent = found.words;
    this.slider.value = 50;
    this.move();
  }

  move() {
    const share = Number(this.slider.value) / 100;
    const canvas = find(".morph", this.root);
    paint(canvas, this.decoder.morph(...this.way, share), this.model.drawing);
    const words = `${this.slider.value} % of the way to ${this.name}`;
    canvas.setAttribute("aria-label", `A drawing ${words}`);
    this.slider.setAttribute("aria-valuetext", words);
    find(".what-if-share", this.root).textContent = words;
  }
}
