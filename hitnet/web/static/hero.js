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
    ...drawings(model),
  ];
  find(".facts").replaceChildren(...facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, String(value)))));
}

/** How good the drawings are; runs made before have fewer numbers. */
function drawings({ quality, classes }) {
  if (!quality) return [];
  const percent = (share) => `${Math.round(100 * share)} %`;
  const of = (share) => `${Math.round(share * classes.length)} of ${classes.length}`;
  const facts = [
    ["prototypes it recognises", quality.prototypes_recognised, of],
    ["of them a hit, alone", quality.prototypes_hit, of],
    ["samples it recognises", quality.samples_recognised, percent],
    ["variation explained (R²)", quality.r2, (value) => value.toFixed(2)],
    ["edges against real pictures", quality.edge_energy, percent],
  ];
  return facts.filter(([, value]) => typeof value === "number").map(([name, value, words]) => [name, words(value)]);
}
