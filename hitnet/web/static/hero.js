// The top of the page: the run in one sentence, the idea in three pictures, and a few numbers.

import { bdi, find, make, signed } from "./dom.js";
import { way } from "./idea.js";
import { paint } from "./picture.js";
import { realPicture } from "./real.js";
import { term } from "./terms.js";

export function showRun(model) {
  find(".hero-model").replaceChildren(bdi(model.name));
  find(".hero-data").replaceChildren(bdi(model.data));
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

/** The title of a view: what is seen comes first, so that tabs can be told apart. */
export function setTitle(model, words) {
  document.title = `${words}: ${model.name} on ${model.data} | HitNet`;
}

/** How a real picture of a class, or its prototype, becomes numbers and lands on the target. */
export function showIdea(workbench, classIndex) {
  const { model, decoder, exemplars } = workbench;
  const name = model.classes[classIndex];
  const found = model.ways?.[classIndex];
  const place = exemplars?.typical?.[classIndex]?.[0];
  find(".idea").hidden = !found || (found.real && place === undefined); // the real picture is on its way
  if (find(".idea").hidden) return;
  const canvas = make("canvas", { class: "picture", role: "img", "aria-label": `the prototype of ${name}` });
  if (!found.real) paint(canvas, decoder.prototype(classIndex), model.drawing);
  const shown = found.real
    ? { picture: realPicture(exemplars.pictures[place], `a real ${name}`), title: ["a real ", bdi(name), " from the training images"] }
    : { picture: canvas, title: ["the prototype of ", bdi(name), ", as the network draws it"] };
  const nameOf = (component) => workbench.nameOf(classIndex, component);
  find(".idea").replaceChildren(way(model, { ...shown, ...found, classIndex, nameOf }));
}

/** How good the drawings are; runs made before have fewer numbers. */
function drawings({ quality, classes }) {
  if (!quality) return [];
  const percent = (share) => `${Math.round(100 * share)} %`;
  const of = (share) => `${Math.round(share * classes.length)} of ${classes.length}`;
  const mean = (values) => (Array.isArray(values) ? values.reduce((sum, value) => sum + value, 0) / values.length : null);
  const facts = [
    ["prototypes it recognises", quality.prototypes_recognised, of],
    ["of them in its hit zone, alone", quality.prototypes_hit, of],
    ["sweeps in its hit zone, alone", quality.sweeps_hit, percent],
    ["samples it recognises", quality.samples_recognised, percent],
    [term("r2", "variation explained (R²)"), quality.r2, (value) => signed(value, 2).replace("+", "")],
    ["of a moved component, read again", mean(quality.read_back), percent],
    ["edges against real pictures", quality.edge_energy, percent],
  ];
  return facts.filter(([, value]) => typeof value === "number").map(([name, value, words]) => [name, words(value)]);
}
