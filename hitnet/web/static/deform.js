// The workbench: one prototype, deformed component by component.

import { moved, unmoved, writeAddress } from "./address.js";
import { bdi, calm, find, segments } from "./dom.js";
import { Gallery } from "./gallery.js";
import { centre, distanceOf, hitRadius, isCalibrated, labelOf, placeOf, randomCapsule, reaches, zoneOf } from "./geometry.js";
import { showIdea } from "./hero.js";
import { paint, savePng } from "./picture.js";
import { showReal } from "./real.js";
import { Rows } from "./rows.js";

const ZONES = { hit: "inside the hit zone", between: "between hit and miss", miss: "in the miss zone" };

/** The gallery of prototypes and the sliders. `rename(class, component, name)` saves a name; null: names are fixed. */
export class Workbench {
  constructor(root, decoder, rename) {
    this.decoder = decoder;
    this.model = decoder.model;
    this.rename = rename;
    this.classIndex = 0;
    this.capsule = centre(this.model);
    this.order = "effect";
    this.reach = reaches(this.model)[0];
    this.canvas = find(".stage canvas", root);
    this.following = find(".follow canvas", root);
    this.root = root;
    this.frame = 0;
    this.pressed = null;
    this.exemplars = null;
    this.changed = () => {};
    this.gallery = new Gallery(root, decoder, (index) => {
      this.choose(index, true);
      this.remember();
    });
    this.rows = new Rows(find(".components", root), this);
    this.makeControls();
    this.choose(0);
  }

  title() {
    return `Prototype of ${this.model.classes[this.classIndex]}`;
  }

  /** Show the state of an address; one without a class leaves everything as it is. */
  restore(state) {
    const index = Number(state.get("class") ?? NaN);
    if (!Number.isInteger(index) || !(index in this.model.classes)) return;
    const capsule = unmoved(state.get("moved"), this.model.dims);
    this.choose(index, false, capsule.every((value) => value === 0.5) ? null : capsule);
  }

  /** Write class and sliders into the address, once they rest. */
  remember() {
    clearTimeout(this.remembering);
    this.remembering = setTimeout(() => {
      if (!this.root.hidden) writeAddress("prototypes", { class: String(this.classIndex), moved: moved(this.capsule) });
    }, 250);
  }

  makeControls() {
    const options = reaches(this.model).map((reach) => [reach.text, reach.text]);
    find(".range-choice", this.root).replaceChildren(
      segments("Range", options, this.reach.text, (text) => {
        this.reach = reaches(this.model).find((reach) => reach.text === text);
        this.rows.refresh();
      }),
    );
    find(".order-choice", this.root).replaceChildren(
      segments("Order", [["effect", "strongest first"], ["number", "by number"]], this.order, (order) => {
        this.order = order;
        this.rows.sort();
      }),
    );
    for (const [button, capsule] of [[".reset", centre], [".sample", randomCapsule]]) {
      find(button, this.root).addEventListener("click", () => this.glide(capsule(this.model)));
    }
    find(".save", this.root).addEventListener("click", () =>
      savePng(this.canvas, `${this.model.data}-${this.model.classes[this.classIndex]}`),
    );
  }

  /** Show a class, at its centre or at a given capsule. */
  choose(classIndex, show = false, capsule = null) {
    cancelAnimationFrame(this.gliding);
    this.classIndex = classIndex;
    this.gallery.mark(classIndex);
    for (const place of [".stage-title", ".follow-title"]) find(place, this.root).replaceChildren(bdi(this.model.classes[classIndex]));
    this.capsule = centre(this.model);
    if (capsule) {
      const farthest = Math.max(...capsule.map((value) => Math.abs(value - 0.5)));
      this.reach = reaches(this.model).find((reach) => reach.high - 0.5 >= farthest) ?? reaches(this.model).at(-1);
      this.root.querySelectorAll(".range-choice input").forEach((input) => (input.checked = input.value === this.reach.text));
    }
    this.rows.refresh();
    this.rows.sort();
    this.paintNow();
    this.showReal();
    this.changed();
    if (capsule) this.glide(capsule);
    if (show && find(".workbench", this.root).getBoundingClientRect().top > window.innerHeight * 0.75) {
      find(".workbench", this.root).scrollIntoView({ behavior: calm() ? "auto" : "smooth", block: "start" });
    }
  }

  /** Real pictures, which come later than the drawings: pictures and their places, or a note that says why not, or null. */
  showExemplars(exemplars) {
    this.exemplars = exemplars;
    this.showReal();
  }

  showReal() {
    showReal(this.root, this.rows.rows, this.model, this.classIndex, this.exemplars);
    showIdea(this, this.classIndex);
  }

  /** Move one component; drawn with the next frame. */
  move(component, value, since = performance.now()) {
    cancelAnimationFrame(this.gliding);
    this.capsule[component] = value;
    this.rows.show(component);
    this.remember();
    this.pressed ??= since;
    if (!this.frame) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.paintNow();
        this.rows.paintLens(component);
        this.canvas.dataset.latency = (performance.now() - this.pressed).toFixed(2);
        this.pressed = null;
      });
    }
  }

  /** Move all components at once, in a short animation. */
  glide(target) {
    cancelAnimationFrame(this.gliding);
    const from = [...this.capsule];
    const begun = performance.now();
    const length = calm() ? 0 : 350;
    const advance = () => {
      const passed = length ? Math.min(1, (performance.now() - begun) / length) : 1;
      const eased = 1 - (1 - passed) ** 3;
      this.capsule = passed === 1 ? [...target] : from.map((value, i) => value + eased * (target[i] - value));
      this.rows.showAll();
      this.paintNow();
      if (passed < 1) this.gliding = requestAnimationFrame(advance);
      else this.rows.paintLenses();
    };
    advance();
    this.remember();
  }

  paintNow() {
    const begun = performance.now();
    const pixels = this.decoder.draw(this.classIndex, this.capsule);
    paint(this.canvas, pixels, this.model.drawing);
    const passed = performance.now() - begun;
    paint(this.following, pixels, this.model.drawing);
    const distance = distanceOf(this.model, this.capsule);
    const zone = zoneOf(this.model, distance, this.classIndex);
    this.canvas.setAttribute("aria-label", `${this.model.classes[this.classIndex]}, ${distance.toFixed(3)} from the centre`);
    this.canvas.dataset.capsule = JSON.stringify(this.capsule);
    this.canvas.dataset.class = this.classIndex;
    this.root.querySelectorAll(".distance-value").forEach((place) => (place.textContent = distance.toFixed(3)));
    this.root.querySelectorAll(".distance-zone").forEach((word) => {
      word.textContent = this.capsule.every((value) => value === 0.5) ? "the prototype" : ZONES[zone];
      word.dataset.zone = zone;
    });
    this.showMeter(distance);
    find(".drawn-in", this.root).textContent = `Drawn in ${passed.toFixed(1)} ms by your browser`;
  }

  showMeter(distance) {
    const { model, classIndex } = this;
    const place = (value) => `${100 * placeOf(model, value)}%`;
    const radius = hitRadius(model, classIndex);
    const box = find(".distance-box", this.root);
    box.style.setProperty("--hit-at", place(radius));
    box.style.setProperty("--training-at", place(model.hit_radius));
    box.style.setProperty("--miss-at", place(model.miss_radius));
    box.style.setProperty("--at", place(distance));
    find(".meter-training", box).hidden = !isCalibrated(model);
    find(".radius-words", box).textContent = isCalibrated(model)
      ? `A hit for this class: up to ${radius.toFixed(2)}, as on held-out images; in training ${model.hit_radius}.`
      : `A hit: up to ${model.hit_radius}, as in training. This run is not calibrated.`;
  }

  nameOf(classIndex, component) {
    return this.model.names[classIndex]?.[component] ?? labelOf(this.model, component);
  }
}
