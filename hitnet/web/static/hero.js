// The top of the page: the run in one sentence and a few numbers.

import { find, make } from "./dom.js";

export function showRun(model) {
  document.title = `${model.name} on ${model.data}: HitNet explorer`;
  find(".hero-model").textContent = model.name;
  find(".hero-data").textContent = model.data;
  const [channels, height, width] = model.shape;
  const facts = [
    ["test error", typeof model.error === "number" ? `${model.error.toFixed(2)} %` : "not measured"],
    ["classes", model.classes.length],
    ["components", model.dims],
    ["images", `${width}×${height} ${channels === 3 ? "colour" : "grey"}`],
    ["decoder", model.decoder.kind === "paper" ? "the paper's" : model.decoder.kind],
  ];
  find(".facts").replaceChildren(...facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, String(value)))));
}
