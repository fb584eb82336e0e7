// A pad to draw on with mouse, pen or finger.

import { make } from "./dom.js";

const COLOURS = ["#ffffff", "#000000", "#d93a2b", "#e9a51c", "#3f9b46", "#2563a8", "#7b4bb0", "#8a5a3b"];

export class Pad {
  /** After every stroke, `done(blob)` gets the drawing as a PNG of the network's input size. */
  constructor(model, done) {
    const [channels, height, width] = model.shape;
    this.model = model;
    this.done = done;
    this.scale = Math.max(1, Math.round(336 / Math.max(width, height)));
    this.colour = "#ffffff";
    this.canvas = make("canvas", {
      class: "pad", width: width * this.scale, height: height * this.scale, role: "img",
      "aria-label": "Drawing pad: draw with the mouse or a finger",
    });
    this.context = this.canvas.getContext("2d", { willReadFrequently: true });
    this.size = make("input", { type: "range", class: "plain-slider", min: 0.03, max: 0.16, step: 0.005, value: 0.075, "aria-label": "Brush size" });
    const likeMnist = channels === 1 && /mnist/i.test(model.data) && !/fashion|affnist/i.test(model.data);
    this.centred = make("input", { type: "checkbox", checked: likeMnist, onchange: () => this.finish() });
    this.element = make(
      "div",
      { class: "pad-box" },
      this.canvas,
      make(
        "div",
        { class: "pad-tools" },
        make("label", { class: "inline" }, "Brush", this.size),
        channels === 3 ? this.makeSwatches() : null,
        channels === 1
          ? make("label", { class: "inline check" }, this.centred, "Centre and scale as in MNIST")
          : null,
        make("button", { type: "button", class: "quiet small", onclick: () => this.clear() }, "Clear"),
      ),
    );
    this.clear();
    this.listen();
  }

  makeSwatches() {
    return make(
      "div",
      { class: "swatches", role: "group", "aria-label": "Colour" },
      ...COLOURS.map((colour) => {
        const button = make("button", { type: "button", class: "swatch", "aria-label": colour, "aria-pressed": String(colour === this.colour) });
        button.style.background = colour;
        button.addEventListener("click", () => {
          this.colour = colour;
          this.element.querySelectorAll(".swatch").forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
        });
        return button;
      }),
    );
  }

  clear() {
    this.context.fillStyle = "#000000";
    this.context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    this.touched = false;
  }

  listen() {
    let last = null;
    const where = (event) => {
      const box = this.canvas.getBoundingClientRect();
      return [((event.clientX - box.left) / box.width) * this.canvas.width, ((event.clientY - box.top) / box.height) * this.canvas.height];
    };
    const stroke = (event) => {
      const at = where(event);
      this.context.strokeStyle = this.colour;
      this.context.lineCap = this.context.lineJoin = "round";
      this.context.lineWidth = Number(this.size.value) * Math.max(this.canvas.width, this.canvas.height);
      this.context.beginPath();
      this.context.moveTo(...(last ?? at));
      this.context.lineTo(...at);
      this.context.stroke();
      last = at;
      this.touched = true;
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      last = null;
      stroke(event);
      event.preventDefault();
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (event.buttons && last) for (const each of event.getCoalescedEvents?.() ?? [event]) stroke(each);
    });
    for (const end of ["pointerup", "pointercancel"]) {
      this.canvas.addEventListener(end, () => {
        if (last) this.finish();
        last = null;
      });
    }
  }

  finish() {
    if (!this.touched) return;
    const source = this.centred.checked && this.model.shape[0] === 1 ? this.normalised() : this.canvas;
    shrink(source, this.model.shape).toBlob((blob) => this.done(blob), "image/png");
  }

  /** Normalised as in MNIST: the ink fits into a 20×20 box in 28×28 pixels, with its centre of mass in the middle. */
  normalised() {
    const { width, height } = this.canvas;
    const { data } = this.context.getImageData(0, 0, width, height);
    let [left, right, top, bottom, mass, x, y] = [width, -1, height, -1, 0, 0, 0];
    for (let row = 0; row < height; row++) {
      for (let column = 0; column < width; column++) {
        const ink = data[4 * (row * width + column)];
        if (ink < 8) continue;
        left = Math.min(left, column);
        right = Math.max(right, column);
        top = Math.min(top, row);
        bottom = Math.max(bottom, row);
        mass += ink;
        x += ink * column;
        y += ink * row;
      }
    }
    if (!mass) return this.canvas;
    const scale = Math.min((width * 20) / 28 / (right - left + 1), (height * 20) / 28 / (bottom - top + 1));
    const result = make("canvas", { width, height });
    const context = result.getContext("2d");
    context.fillStyle = "#000000";
    context.fillRect(0, 0, width, height);
    context.translate(width / 2, height / 2);
    context.scale(scale, scale);
    context.drawImage(this.canvas, -(x / mass + 0.5), -(y / mass + 0.5));
    return result;
  }
}

/** Downscale: each pixel is the mean of the square it covers. */
function shrink(source, [, height, width]) {
  const step = source.width / width;
  const { data } = source.getContext("2d").getImageData(0, 0, source.width, source.height);
  const result = make("canvas", { width, height });
  const small = new ImageData(width, height);
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; column++) {
      for (let channel = 0; channel < 3; channel++) {
        let sum = 0;
        for (let i = 0; i < step; i++) {
          for (let j = 0; j < step; j++) sum += data[4 * ((row * step + i) * source.width + column * step + j) + channel];
        }
        small.data[4 * (row * width + column) + channel] = Math.round(sum / step ** 2);
      }
      small.data[4 * (row * width + column) + 3] = 255;
    }
  }
  result.getContext("2d").putImageData(small, 0, 0);
  return result;
}
