// Choose one of the run's test images.

import { ask } from "./api.js";
import { bdi, make } from "./dom.js";
import { isCalibrated } from "./geometry.js";
import { paint, unpack } from "./picture.js";

const PAGE = 24;
const VERDICTS = [["unknown", "Unknown (no hit)"], ["ambiguous", "Ambiguous (several hits)"]];

export class TestImages {
  /** `chosen(index)` is called with the index of the chosen test image. */
  constructor(model, chosen) {
    this.model = model;
    this.chosen = chosen;
    this.offset = 0;
    this.show = make(
      "select",
      { onchange: () => this.restart() },
      ...[["all", "All images"], ["mistakes", "Mistakes"], ...(isCalibrated(model) ? VERDICTS : [])].map(([value, text]) => make("option", { value }, text)),
    );
    this.classes = make(
      "select",
      { onchange: () => this.restart() },
      make("option", { value: "" }, "every class"),
      ...model.classes.map((name, index) => make("option", { value: index }, name)),
    );
    this.status = make("p", { class: "status", role: "status" });
    this.progress = make("progress", { max: 1, value: 0, "aria-label": "Test images classified" });
    this.grid = make("ul", { class: "test-grid" });
    this.back = make("button", { type: "button", class: "quiet small", onclick: () => this.turn(-PAGE) }, "← Back");
    this.next = make("button", { type: "button", class: "quiet small", onclick: () => this.turn(PAGE) }, "More →");
    this.element = make(
      "div",
      { class: "test-images" },
      make(
        "div",
        { class: "filters" },
        make("label", {}, make("span", {}, "Show"), this.show),
        make("label", {}, make("span", {}, "of"), this.classes),
      ),
      this.progress,
      this.grid,
      make("div", { class: "pager" }, this.back, this.status, this.next),
    );
  }

  restart() {
    this.offset = 0;
    this.refresh();
  }

  turn(by) {
    this.offset = Math.max(0, this.offset + by);
    this.refresh();
  }

  /** Show a page, and refresh it until all images are classified. Only the newest request counts. */
  async refresh() {
    clearTimeout(this.timer);
    const asked = (this.asked = (this.asked ?? 0) + 1);
    const query = new URLSearchParams({ show: this.show.value, class: this.classes.value, offset: this.offset, limit: PAGE });
    let page;
    try {
      page = await ask(`/api/tests?${query}`);
    } catch (error) {
      if (asked === this.asked) this.status.textContent = error.message;
      return;
    }
    if (asked !== this.asked) return;
    const busy = page.phase === "loading" || page.phase === "scoring";
    this.progress.hidden = !busy;
    if (page.total) this.progress.value = page.done / page.total;
    else this.progress.removeAttribute("value");
    this.fill(page);
    if (busy) this.wait();
  }

  /** Refresh in a moment, or once this view is visible again. */
  wait() {
    this.timer = setTimeout(() => (this.element.offsetParent ? this.refresh() : this.wait()), 800);
  }

  fill(page) {
    const key = JSON.stringify(page.images);
    if (key !== this.filled) {
      this.filled = key;
      const pictures = unpack(page.pixels, this.model.drawing);
      this.grid.replaceChildren(...page.images.map((image, place) => this.makeTile(image, pictures[place])));
    }
    const last = Math.min(this.offset + PAGE, page.matching);
    const far = page.phase === "scoring" ? `, ${page.done.toLocaleString("en")} of ${page.total.toLocaleString("en")} classified` : "";
    if (page.phase === "gone") this.status.textContent = `${page.message} Draw or upload one instead.`;
    else if (page.phase === "loading") this.status.textContent = "Loading the test images …";
    else if (!page.matching) this.status.textContent = `No such images${far}.`;
    else this.status.textContent = `${this.offset + 1}–${last} of ${page.matching.toLocaleString("en")}${far}`;
    const none = !page.matching;
    this.back.hidden = this.next.hidden = none;
    this.back.disabled = this.offset === 0;
    this.next.disabled = last >= page.matching;
  }

  makeTile(image, pixels) {
    const canvas = make("canvas", { class: "picture", "aria-hidden": "true" });
    paint(canvas, pixels, this.model.drawing);
    const [truth, guess] = [this.model.classes[image.label], this.model.classes[image.predicted]];
    const wrong = image.label !== image.predicted;
    const words = wrong ? `${truth} → ${guess}` : truth;
    const verdict = image.verdict ? `, ${image.verdict}` : "";
    return make(
      "li",
      {},
      make(
        "button",
        {
          type: "button",
          class: `test-tile${wrong ? " wrong" : ""}`,
          "aria-label": `Test image ${image.index}: ${words}${wrong ? ", a mistake" : ""}${verdict}`,
          title: `${words}, distance ${image.score.toFixed(3)}${verdict}`,
          onclick: () => this.chosen(image.index),
        },
        canvas,
        make("span", {}, bdi(truth), ...(wrong ? [" → ", bdi(guess)] : [])),
      ),
    );
  }
}
