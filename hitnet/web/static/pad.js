// A pad to draw on with mouse, pen or finger.

import { make } from "./dom.js";
import { asPng, centred, isLikeMnist, SIDE } from "./ink.js";

const COLOURS = {
  white: "#ffffff", black: "#000000", red: "#d93a2b", yellow: "#e9a51c", green: "#3f9b46", blue: "#2563a8", purple: "#7b4bb0", brown: "#8a5a3b",
};

export class Pad {
  /** After every stroke `done(blob)` gets the drawing as a PNG of the network's input size; `emptied()`: all is gone. */
  constructor(model, done, emptied) {
    const [channels, height, width] = model.shape;
    this.model = model;
    this.done = done;
    this.emptied = emptied;
    this.strokes = [];
    const scale = Math.max(1, Math.round(SIDE / Math.max(width, height)));
    this.colour = COLOURS.white;
    const words = model.classes.every((name) => /^\d$/.test(name)) ? "Draw a digit" : "Draw here";
    this.canvas = make("canvas", {
      class: "pad", width: width * scale, height: height * scale, role: "img", "aria-label": `${words}, with the mouse or a finger`,
    });
    this.context = this.canvas.getContext("2d", { willReadFrequently: true });
    this.words = make("p", { class: "pad-words", "aria-hidden": "true" }, words);
    this.size = make("input", { type: "range", class: "plain-slider", min: 0.03, max: 0.16, step: 0.005, value: 0.075, "aria-label": "Brush size" });
    this.centred = make("input", { type: "checkbox", checked: isLikeMnist(model), onchange: () => this.finish() });
    this.undoing = make("button", { type: "button", class: "quiet small", onclick: () => this.keep(this.strokes.slice(0, -1)) }, "Undo");
    this.clearing = make("button", { type: "button", class: "quiet small", onclick: () => this.keep([]) }, "Clear");
    this.element = make(
      "div",
      { class: "pad-box" },
      make("div", { class: "pad-frame" }, this.canvas, this.words),
      make(
        "div",
        { class: "pad-tools" },
        make("label", { class: "inline" }, "Brush", this.size),
        make("div", { class: "buttons" }, this.undoing, this.clearing),
        channels === 3 ? this.makeSwatches() : null,
        channels === 1
          ? make("label", { class: "inline check" }, this.centred, "Centre and scale as in MNIST")
          : null,
      ),
    );
    this.repaint();
    this.listen();
  }

  makeSwatches() {
    return make(
      "div",
      { class: "swatches", role: "group", "aria-label": "Colour" },
      ...Object.entries(COLOURS).map(([name, colour]) => {
        const button = make("button", { type: "button", class: "swatch", "aria-label": name, title: name, "aria-pressed": String(colour === this.colour) });
        button.style.background = colour;
        button.addEventListener("click", () => {
          this.colour = colour;
          this.element.querySelectorAll(".swatch").forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
        });
        return button;
      }),
    );
  }

  /** Keep these strokes only. With none left, the answer goes too, even one that has nothing to do with the pad. */
  keep(strokes) {
    this.strokes = strokes;
    this.repaint();
    if (strokes.length) this.finish();
    else this.emptied();
  }

  repaint() {
    this.context.fillStyle = "#000000";
    this.context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    this.strokes.forEach((stroke) => this.paint(stroke, 0));
    this.showState();
  }

  /** Paint a stroke from one of its points on, piece by piece: repainted it is the same to the pixel. */
  paint({ colour, width, points }, from) {
    this.context.strokeStyle = colour;
    this.context.lineCap = "round";
    this.context.lineWidth = width;
    for (let at = from; at < points.length; at++) {
      this.context.beginPath();
      this.context.moveTo(...points[Math.max(0, at - 1)]);
      this.context.lineTo(...points[at]);
      this.context.stroke();
    }
  }

  showState() {
    this.words.hidden = this.strokes.length > 0;
    this.undoing.disabled = !this.strokes.length;
  }

  listen() {
    let stroke = null;
    const where = (event) => {
      const box = this.canvas.getBoundingClientRect();
      return [((event.clientX - box.left) / box.width) * this.canvas.width, ((event.clientY - box.top) / box.height) * this.canvas.height];
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      stroke = { colour: this.colour, width: Number(this.size.value) * Math.max(this.canvas.width, this.canvas.height), points: [where(event)] };
      this.strokes.push(stroke);
      this.paint(stroke, 0);
      this.showState();
      event.preventDefault();
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!event.buttons || !stroke) return;
      const from = stroke.points.length;
      for (const each of event.getCoalescedEvents?.() ?? [event]) stroke.points.push(where(each));
      this.paint(stroke, from);
    });
    for (const end of ["pointerup", "pointercancel"]) {
      this.canvas.addEventListener(end, () => {
        if (stroke) this.finish();
        stroke = null;
      });
    }
  }

  async finish() {
    if (!this.strokes.length) return;
    const source = this.centred.checked && this.model.shape[0] === 1 ? centred(this.canvas) : this.canvas;
    this.done(await asPng(source, this.model.shape));
  }
}
