// The components of a capsule, one row each: its name, its value, and a slider on a strip of pictures.

import { draw, idle, make, signed } from "./dom.js";
import { centre, labelOf, reaches } from "./geometry.js";
import { fit, meanDifference, paint, paintStrip } from "./picture.js";

const FRAMES = 7; // pictures in a slider's strip
const PENCIL = "M3 21l1-5L16 4l4 4L8 20z";

export class Rows {
  /** `bench` holds the class, the capsule, the order and the range that are shown, moves components and saves names. */
  constructor(list, bench) {
    this.list = list;
    this.bench = bench;
    this.effects = new Map();
    this.generation = 0; // counts changes of class or range; strips of an older one are abandoned
    const [, height, width] = bench.model.drawing;
    bench.root.style.setProperty("--ratio", height / width);
    bench.root.style.setProperty("--frames", FRAMES);
    this.rows = Array.from({ length: bench.model.dims }, (_, component) => this.makeRow(component));
    this.visible = new IntersectionObserver((entries) => this.noticeRows(entries), { rootMargin: "200px" });
    this.rows.forEach((row) => this.visible.observe(row.item));
  }

  makeRow(component) {
    const label = labelOf(this.bench.model, component);
    const name = make("input", {
      class: "component-name", type: "text", maxlength: 40, placeholder: label, spellcheck: "false", autocomplete: "off",
      "aria-label": `Name of ${label.toLowerCase()}`, readonly: !this.bench.rename, tabindex: this.bench.rename ? null : "-1", dir: "auto",
    });
    const pencil = this.bench.rename
      ? make("button", { type: "button", class: "pencil", "aria-label": `Rename ${label.toLowerCase()}`, title: "Rename", onclick: () => name.select() },
          draw("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, draw("path", { d: PENCIL })))
      : null;
    const units = make("span", { class: "component-units" });
    const value = make("input", {
      class: "component-value", type: "number", step: "any", min: 0, max: 1, "aria-label": `Exact value of ${label.toLowerCase()}`,
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
    slider.addEventListener("input", (event) => this.bench.move(component, Number(slider.value), event.timeStamp));
    slider.addEventListener("keydown", (event) => this.step(component, event));
    slider.addEventListener("dblclick", () => this.bench.move(component, 0.5));
    value.addEventListener("change", () => {
      const typed = Number(value.value);
      this.bench.move(component, value.value !== "" && Number.isFinite(typed) ? Math.min(1, Math.max(0, typed)) : this.bench.capsule[component]);
    });
    name.addEventListener("change", () => this.keepName(component, name));
    name.addEventListener("keydown", (event) => event.key === "Enter" && name.blur());
    return { item, name, units, value, strip, lens, slider, ends, shown: false, drawn: -1 };
  }

  /** Arrow keys: a fiftieth of the range; with Shift a tenth of that. */
  step(component, event) {
    const direction = { ArrowRight: 1, ArrowUp: 1, PageUp: 5, ArrowLeft: -1, ArrowDown: -1, PageDown: -5 }[event.key];
    if (direction === undefined) return;
    event.preventDefault();
    const { low, high } = this.bench.reach;
    const size = ((high - low) / 50) * (event.shiftKey ? 0.1 : 1);
    const value = Math.min(high, Math.max(low, this.bench.capsule[component] + direction * size));
    this.bench.move(component, Number(value.toFixed(6)), event.timeStamp);
  }

  show(component) {
    const { slider, units, value, lens } = this.rows[component];
    const at = this.bench.capsule[component];
    const { low, high } = this.bench.reach;
    lens.style.setProperty("--at", Math.min(1, Math.max(0, (at - low) / (high - low))));
    const away = (at - 0.5) / this.bench.model.unit;
    slider.value = at;
    slider.setAttribute("aria-valuetext", `${at.toFixed(4)}, ${signed(away)} units`);
    units.textContent = `${signed(away)} units`;
    units.classList.toggle("at-rest", Math.abs(away) < 0.05);
    if (document.activeElement !== value || Number(value.value) !== at) value.value = String(Number(at.toFixed(4)));
  }

  showAll() {
    this.rows.forEach((_, component) => this.show(component));
  }

  /** Update names, ranges and strips of all rows after a change of class or range. */
  refresh() {
    this.generation++;
    const names = this.bench.model.names[this.bench.classIndex] ?? {};
    this.rows.forEach((row, component) => {
      row.slider.min = this.bench.reach.low;
      row.slider.max = this.bench.reach.high;
      row.name.value = names[component] ?? "";
      this.show(component);
    });
    this.drawStrips();
  }

  /** The picture inside the frame: the prototype with only this component moved. */
  paintLens(component) {
    const capsule = centre(this.bench.model);
    capsule[component] = this.bench.capsule[component];
    paint(this.rows[component].lens, this.bench.decoder.draw(this.bench.classIndex, capsule), this.bench.model.drawing);
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
    const [, height, width] = this.bench.model.drawing;
    const { low, high } = this.bench.reach;
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
        const capsule = centre(this.bench.model);
        capsule[component] = low + ((high - low) * frame) / (FRAMES - 1);
        paintStrip(row.strip, [this.bench.decoder.draw(this.bench.classIndex, capsule)], this.bench.model.drawing, frame);
      }
    }
  }

  async sort() {
    const classIndex = this.bench.classIndex;
    let components = this.rows.map((_, component) => component);
    if (this.bench.order === "effect") {
      const effects = await this.measureEffects(classIndex);
      if (classIndex !== this.bench.classIndex || this.bench.order !== "effect") return;
      components = components.sort((first, second) => effects[second] - effects[first]);
    }
    const now = [...this.list.children].map((item) => Number(item.dataset.component));
    if (String(now) !== String(components)) this.list.replaceChildren(...components.map((component) => this.rows[component].item));
    this.list.dataset.order = this.bench.order;
    this.drawStrips();
    this.paintLenses();
  }

  /** How much each component changes the prototype from one end of its sweep to the other. */
  async measureEffects(classIndex) {
    if (!this.effects.has(classIndex)) {
      const effects = [];
      const { low, high } = reaches(this.bench.model)[0];
      let since = performance.now();
      for (let component = 0; component < this.bench.model.dims; component++) {
        const [first, last] = [low, high].map((value) => {
          const capsule = centre(this.bench.model);
          capsule[component] = value;
          return this.bench.decoder.draw(classIndex, capsule);
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
    const before = this.bench.model.names[this.bench.classIndex]?.[component] ?? "";
    try {
      this.bench.model.names = await this.bench.rename(this.bench.classIndex, component, input.value);
      input.value = this.bench.model.names[this.bench.classIndex]?.[component] ?? "";
      input.dataset.kept = "yes";
      setTimeout(() => delete input.dataset.kept, 1500);
    } catch {
      input.value = before; // rename() has already shown the reason
    }
  }
}
