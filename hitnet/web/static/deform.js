// The workbench: one prototype, deformed component by component.

import { moved, unmoved, writeAddress } from "./address.js";
import { bdi, calm, draw, find, idle, make, segments, signed } from "./dom.js";
import { Gallery } from "./gallery.js";
import { centre, distanceOf, hitRadius, isCalibrated, placeOf, randomCapsule, reaches, zoneOf } from "./geometry.js";
import { showIdea } from "./hero.js";
import { fit, meanDifference, paint, paintStrip, savePng } from "./picture.js";
import { showReal } from "./real.js";

const FRAMES = 7; // pictures in a slider's strip
const PENCIL = "M3 21l1-5L16 4l4 4L8 20z";
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
    this.effects = new Map();
    this.generation = 0; // counts changes of class or range; strips of an older one are abandoned
    this.canvas = find(".stage canvas", root);
    this.following = find(".follow canvas", root);
    this.list = find(".components", root);
    this.root = root;
    this.frame = 0;
    this.pressed = null;
    this.exemplars = null;
    this.changed = () => {};
    this.gallery = new Gallery(root, decoder, (index) => {
      this.choose(index, true);
      this.remember();
    });
    this.makeRows();
    this.makeControls();
    this.visible = new IntersectionObserver((entries) => this.noticeRows(entries), { rootMargin: "200px" });
    this.rows.forEach((row) => this.visible.observe(row.item));
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

  makeRows() {
    this.rows = Array.from({ length: this.model.dims }, (_, component) => this.makeRow(component));
    const [, height, width] = this.model.shape;
    this.root.style.setProperty("--ratio", height / width);
    this.root.style.setProperty("--frames", FRAMES);
  }

  makeRow(component) {
    const label = `Component ${component}`;
    const name = make("input", {
      class: "component-name", type: "text", maxlength: 40, placeholder: label, spellcheck: "false", autocomplete: "off",
      "aria-label": `Name of component ${component}`, readonly: !this.rename, tabindex: this.rename ? null : "-1", dir: "auto",
    });
    const pencil = this.rename
      ? make("button", { type: "button", class: "pencil", "aria-label": `Rename component ${component}`, title: "Rename", onclick: () => name.select() },
          draw("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, draw("path", { d: PENCIL })))
      : null;
    const units = make("span", { class: "component-units" });
    const value = make("input", {
      class: "component-value", type: "number", step: "any", min: 0, max: 1, "aria-label": `Exact value of component ${component}`,
    });
    const strip = make("canvas", { class: "strip", "aria-hidden": "true" });
    const lens = make("canvas", { class: "lens", "aria-hidden": "true" });
    const slider = make("input", { class: "film-slider", type: "range", step: "any", "aria-label": label });
    const ends = make("div", { class: "ends", hidden: true });
    const item = make(
      "li",
      { class: "component", "data-component": component },
      make("div", { class: "component-head" }, name, pencil, units, value),
      make("div", { class: "film" }, strip, lens, slider),
      ends,
    );
    slider.addEventListener("input", (event) => this.move(component, Number(slider.value), event.timeStamp));
    slider.addEventListener("keydown", (event) => this.step(component, event));
    slider.addEventListener("dblclick", () => this.move(component, 0.5));
    value.addEventListener("change", () => {
      const typed = Number(value.value);
      this.move(component, value.value !== "" && Number.isFinite(typed) ? Math.min(1, Math.max(0, typed)) : this.capsule[component]);
    });
    name.addEventListener("change", () => this.keepName(component, name));
    name.addEventListener("keydown", (event) => event.key === "Enter" && name.blur());
    return { item, name, units, value, strip, lens, slider, ends, shown: false, drawn: -1 };
  }

  makeControls() {
    const options = reaches(this.model).map((reach) => [reach.text, reach.text]);
    find(".range-choice", this.root).replaceChildren(
      segments("Range", options, this.reach.text, (text) => {
        this.reach = reaches(this.model).find((reach) => reach.text === text);
        this.refreshRows();
      }),
    );
    find(".order-choice", this.root).replaceChildren(
      segments("Order", [["effect", "strongest first"], ["number", "by number"]], this.order, (order) => {
        this.order = order;
        this.sortRows();
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
    this.refreshRows();
    this.sortRows();
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
    showReal(this.root, this.rows, this.model, this.classIndex, this.exemplars);
    showIdea(this, this.classIndex);
  }

  /** Move one component; drawn with the next frame. */
  move(component, value, since = performance.now()) {
    cancelAnimationFrame(this.gliding);
    this.capsule[component] = value;
    this.showRow(component);
    this.remember();
    this.pressed ??= since;
    if (!this.frame) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.paintNow();
        this.paintLens(component);
        this.canvas.dataset.latency = (performance.now() - this.pressed).toFixed(2);
        this.pressed = null;
      });
    }
  }

  /** Arrow keys: a fiftieth of the range; with Shift a tenth of that. */
  step(component, event) {
    const direction = { ArrowRight: 1, ArrowUp: 1, PageUp: 5, ArrowLeft: -1, ArrowDown: -1, PageDown: -5 }[event.key];
    if (direction === undefined) return;
    event.preventDefault();
    const { low, high } = this.reach;
    const size = ((high - low) / 50) * (event.shiftKey ? 0.1 : 1);
    const value = Math.min(high, Math.max(low, this.capsule[component] + direction * size));
    this.move(component, Number(value.toFixed(6)), event.timeStamp);
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
      this.rows.forEach((_, component) => this.showRow(component));
      this.paintNow();
      if (passed < 1) this.gliding = requestAnimationFrame(advance);
      else this.paintLenses();
    };
    advance();
    this.remember();
  }

  paintNow() {
    const begun = performance.now();
    const pixels = this.decoder.draw(this.classIndex, this.capsule);
    paint(this.canvas, pixels, this.model.shape);
    const passed = performance.now() - begun;
    paint(this.following, pixels, this.model.shape);
    const distance = distanceOf(this.capsule);
    const zone = zoneOf(this.model, distance, this.classIndex);
    this.canvas.setAttribute("aria-label", `${this.model.classes[this.classIndex]}, ${distance.toFixed(3)} from the centre`);
    this.canvas.dataset.capsule = JSON.stringify(this.capsule);
    this.canvas.dataset.class = this.classIndex;
    this.root.querySelectorAll(".distance-value").forEach((place) => (place.textContent = distance.toFixed(3)));
    this.root.querySelectorAll(".distance-zone").forEach((word) => {
      word.textContent = distance === 0 ? "the prototype" : ZONES[zone];
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

  showRow(component) {
    const { slider, units, value, lens } = this.rows[component];
    const at = this.capsule[component];
    const { low, high } = this.reach;
    lens.style.setProperty("--at", Math.min(1, Math.max(0, (at - low) / (high - low))));
    const away = (at - 0.5) / this.model.unit;
    slider.value = at;
    slider.setAttribute("aria-valuetext", `${at.toFixed(4)}, ${signed(away)} units`);
    units.textContent = `${signed(away)} units`;
    units.classList.toggle("at-rest", Math.abs(away) < 0.05);
    if (document.activeElement !== value || Number(value.value) !== at) value.value = String(Number(at.toFixed(4)));
  }

  /** Update names, ranges and strips of all rows after a change of class or range. */
  refreshRows() {
    this.generation++;
    const names = this.model.names[this.classIndex] ?? {};
    this.rows.forEach((row, component) => {
      row.slider.min = this.reach.low;
      row.slider.max = this.reach.high;
      row.name.value = names[component] ?? "";
      this.showRow(component);
    });
    this.drawStrips();
  }

  /** The picture inside the frame: the prototype with only this component moved. */
  paintLens(component) {
    const capsule = centre(this.model);
    capsule[component] = this.capsule[component];
    paint(this.rows[component].lens, this.decoder.draw(this.classIndex, capsule), this.model.shape);
  }

  async paintLenses() {
    const round = (this.round = (this.round ?? 0) + 1);
    for (const item of [...this.list.children]) {
      this.paintLens(Number(item.dataset.component));
      await idle();
      if (round !== this.round) return;
    }
  }

  noticeRows(entries) {
    for (const entry of entries) this.rows[Number(entry.target.dataset.component)].shown = entry.isIntersecting;
  }

  /** Draw all strips, those on screen first, picture by picture while the browser is idle. */
  async drawStrips() {
    const generation = this.generation;
    const [, height, width] = this.model.shape;
    const { low, high } = this.reach;
    for (;;) {
      const waiting = [...this.list.children]
        .map((item) => Number(item.dataset.component))
        .filter((each) => this.rows[each].drawn !== generation);
      if (!waiting.length) return;
      const component = waiting.find((each) => this.rows[each].shown) ?? waiting[0];
      const row = this.rows[component];
      row.drawn = generation;
      fit(row.strip, FRAMES * width, height);
      for (let frame = 0; frame < FRAMES; frame++) {
        await idle();
        if (generation !== this.generation) return;
        const capsule = centre(this.model);
        capsule[component] = low + ((high - low) * frame) / (FRAMES - 1);
        paintStrip(row.strip, [this.decoder.draw(this.classIndex, capsule)], this.model.shape, frame);
      }
    }
  }

  async sortRows() {
    const classIndex = this.classIndex;
    let components = this.rows.map((_, component) => component);
    if (this.order === "effect") {
      const effects = await this.measureEffects(classIndex);
      if (classIndex !== this.classIndex || this.order !== "effect") return;
      components = components.sort((first, second) => effects[second] - effects[first]);
    }
    const now = [...this.list.children].map((item) => Number(item.dataset.component));
    if (String(now) !== String(components)) this.list.replaceChildren(...components.map((component) => this.rows[component].item));
    this.list.dataset.order = this.order;
    this.drawStrips();
    this.paintLenses();
  }

  /** How much each component changes the prototype from one end of its sweep to the other. */
  async measureEffects(classIndex) {
    if (!this.effects.has(classIndex)) {
      const effects = [];
      const { low, high } = reaches(this.model)[0];
      let since = performance.now();
      for (let component = 0; component < this.model.dims; component++) {
        const [first, last] = [low, high].map((value) => {
          const capsule = centre(this.model);
          capsule[component] = value;
          return this.decoder.draw(classIndex, capsule);
        });
        effects.push(meanDifference(first, last));
        if (performance.now() - since > 40) {
          await idle();
          since = performance.now();
        }
      }
      this.effects.set(classIndex, effects);
    }
    return this.effects.get(classIndex);
  }

  async keepName(component, input) {
    const before = this.model.names[this.classIndex]?.[component] ?? "";
    try {
      this.model.names = await this.rename(this.classIndex, component, input.value);
      input.value = this.model.names[this.classIndex]?.[component] ?? "";
      input.dataset.kept = "yes";
      setTimeout(() => delete input.dataset.kept, 1500);
    } catch {
      input.value = before; // rename() has already shown the reason
    }
  }

  nameOf(classIndex, component) {
    return this.model.names[classIndex]?.[component] ?? `Component ${component}`;
  }
}
