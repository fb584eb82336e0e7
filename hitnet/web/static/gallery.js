// All prototypes, and how they came to be: a slider leads through the epochs of a run that kept snapshots.

import { bdi, find, idle, make } from "./dom.js";
import { paint, unpack } from "./picture.js";

const FRAME = 350; // milliseconds of a film's picture

export class Gallery {
  /** `choose(class)` is called with the class that is clicked. */
  constructor(root, decoder, choose) {
    this.root = root;
    this.decoder = decoder;
    this.model = decoder.model;
    this.list = find(".gallery", root);
    this.list.classList.toggle("many", this.model.classes.length > 20);
    this.list.classList.toggle("long-names", this.model.classes.some((name) => name.length > 6));
    this.cards = this.model.classes.map((name, index) => {
      const canvas = make("canvas", { class: "picture", "aria-hidden": "true" });
      const card = make(
        "button",
        { type: "button", class: "class-card", "aria-pressed": "false", title: name, onclick: () => choose(index) },
        canvas,
        make("span", { class: "class-name" }, bdi(name)),
      );
      return { card, canvas };
    });
    this.list.replaceChildren(...this.cards.map(({ card }) => make("li", {}, card)));
    this.paintAll();
  }

  async paintAll() {
    for (const [index, { canvas }] of this.cards.entries()) {
      paint(canvas, this.decoder.prototype(index), this.model.drawing);
      if (index % 10 === 9) await idle();
    }
  }

  mark(classIndex) {
    this.cards.forEach(({ card }, index) => card.setAttribute("aria-pressed", String(index === classIndex)));
    const { card } = this.cards[classIndex];
    const box = this.list.getBoundingClientRect();
    if (this.list.scrollHeight > box.height + 1) {
      this.list.scrollTop = card.offsetTop - this.list.offsetTop - (box.height - card.offsetHeight) / 2;
    }
  }

  /** The prototypes after each epoch, or a note why they cannot be shown, or null if the run kept none. */
  showEvolution(evolution) {
    if (!evolution) return;
    const box = find(".learning", this.root);
    box.hidden = false;
    if (evolution.note) {
      box.replaceChildren(make("p", { class: "hint" }, evolution.note));
      return;
    }
    const [slider, play] = [find(".epoch-slider", box), find(".play", box)];
    const pictures = unpack(evolution.pixels, this.model.drawing);
    slider.max = evolution.titles.length - 1;
    slider.value = slider.max;
    const show = () => {
      const at = Number(slider.value);
      const error = evolution.errors[at];
      const words = `${evolution.titles[at]}${error === null ? "" : `, test error ${error.toFixed(2)} %`}`;
      this.cards.forEach(({ canvas }, index) => paint(canvas, pictures[at * this.cards.length + index], this.model.drawing));
      slider.setAttribute("aria-valuetext", words);
      find(".epoch-words", box).textContent = words;
    };
    const stop = () => {
      clearInterval(this.playing);
      this.playing = null;
      play.textContent = "Play";
    };
    slider.addEventListener("input", () => {
      stop();
      show();
    });
    play.addEventListener("click", () => {
      if (this.playing) return stop();
      slider.value = 0;
      show();
      play.textContent = "Stop";
      this.playing = setInterval(() => {
        slider.value = Number(slider.value) + 1;
        show();
        if (slider.value === slider.max) stop();
      }, FRAME);
    });
    show();
  }
}
