// The words of the page that need a sentence. Each is a button: hover, focus or tap it to read the sentence.

import { find, make } from "./dom.js";
import { isCalibrated } from "./geometry.js";

function sentences(model) {
  const style = model.counted < model.dims
    ? ` The last ${model.dims - model.counted} numbers are the style, what else the image shows: they are the same in all capsules and have no say in the distance.`
    : "";
  const share = model.coverage ? `${Math.floor(1e4 * model.coverage + 1e-9) / 100} % of` : "nearly all";
  return {
    capsule: `The ${model.dims} numbers that the network computes from an image for one class. Every class has its own capsule.${style}`,
    component: "One number of a capsule, between 0 and 1. Move it to see how it changes the drawing.",
    centre: "The point where every component is 0.5. The network learned to bring the capsule of the right class there.",
    unit: `How far a component usually lies from 0.5: m/√n, here ${Number(model.unit.toFixed(4))}.`,
    hit: isCalibrated(model)
      ? `So near the centre as ${share} the images of the class lie. Found on images that were not used for training.`
      : `Within ${model.hit_radius} of the centre, the radius of training. This run is not calibrated: how near is usual was not measured.`,
    r2: "R²: how much of the variation within the classes the drawings show. 1 is all of it, 0 none.",
  };
}

/** A word with its sentence. */
export function term(key, text) {
  return make("button", { type: "button", class: "term", "data-term": key, "aria-describedby": `term-${key}` }, text);
}

export function setUpTerms(model) {
  const words = sentences(model);
  const tip = make("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  document.body.append(
    make("div", { hidden: true }, ...Object.entries(words).map(([key, text]) => make("p", { id: `term-${key}` }, text))),
    tip,
  );
  const termOf = (event) => event.target.closest?.(".term");
  let shown = null;
  const hide = () => {
    tip.hidden = true;
    shown = null;
  };
  const show = (button) => {
    shown = button;
    tip.textContent = words[button.dataset.term];
    tip.hidden = false;
    const [box, own] = [button.getBoundingClientRect(), tip.getBoundingClientRect()];
    const left = Math.max(8, Math.min(box.left, document.documentElement.clientWidth - own.width - 8));
    const above = box.top - own.height - 6;
    tip.style.left = `${left + scrollX}px`;
    tip.style.top = `${(above > 4 ? above : box.bottom + 6) + scrollY}px`;
  };
  const stays = (to) => to === shown || tip.contains(to);
  document.addEventListener("focusin", (event) => (termOf(event) ? show(termOf(event)) : hide()));
  document.addEventListener("pointerover", (event) => termOf(event) && show(termOf(event)));
  document.addEventListener("pointerout", (event) => {
    if (shown && event.pointerType === "mouse" && document.activeElement !== shown && !stays(event.relatedTarget)) hide();
  });
  document.addEventListener("click", (event) => (termOf(event) ? show(termOf(event)) : shown && !tip.contains(event.target) && hide()));
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  find("main").addEventListener("focusout", (event) => event.target === shown && hide());
}
