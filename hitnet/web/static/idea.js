// The idea in three pictures: an image becomes numbers, and the numbers land on a target.

import { distanceOf, hitRadius } from "./geometry.js";
import { bdi, draw, make, signed } from "./dom.js";
import { target } from "./rings.js";
import { term } from "./terms.js";

const [WIDE, HIGH] = [160, 100];

/**
 * Image → numbers → target. `picture` shows the image, `title` are the words for it; `capsule` is that of class `classIndex`,
 * `scores` are the distances of all classes; `nameOf(component)` names the bars.
 */
export function way(model, { picture, title, capsule, scores, classIndex, nameOf }) {
  const distance = distanceOf(model, capsule);
  const inside = distance <= hitRadius(model, classIndex);
  const name = () => bdi(model.classes[classIndex]);
  const steps = [
    [picture, "An image", title],
    [bars(model, capsule, nameOf), `${model.dims} numbers`, [
      "its ", term("capsule", "capsule"), " for ", name(), ": how far each ", term("component", "component"), " is from 0.5, in ", term("unit", "units"),
    ]],
    [target(model, scores, classIndex, true), "A target", [
      `${distance.toFixed(3)} from the `, term("centre", "centre"), " of ", name(), inside ? ": a " : ", not a ", term("hit", "hit"),
    ]],
  ];
  return make(
    "ol",
    { class: "way" },
    ...steps.map(([shown, heading, words]) =>
      make("li", {}, make("div", { class: "way-picture" }, shown), make("p", {}, make("strong", {}, heading), make("span", {}, ...words))),
    ),
  );
}

/** One bar for each component, up if it is above 0.5. */
function bars(model, capsule, nameOf) {
  const away = capsule.map((value) => (value - 0.5) / model.unit);
  const most = Math.max(2, ...away.map(Math.abs));
  const step = WIDE / capsule.length;
  const words = away.map((units, component) => `${nameOf(component)}: ${signed(units)}`);
  return draw(
    "svg",
    { viewBox: `0 0 ${WIDE} ${HIGH}`, class: "bars", role: "img", "aria-label": `Components in units from the centre. ${words.join(", ")}` },
    ...away.map((units, component) =>
      draw(
        "rect",
        {
          x: component * step + step * 0.15, width: step * 0.7, class: Math.abs(units) < 0.005 ? "bar-rest" : "bar-moved",
          y: HIGH / 2 - Math.max(0, units / most) * (HIGH / 2 - 4), height: Math.max(0.5, (Math.abs(units) / most) * (HIGH / 2 - 4)),
        },
        draw("title", {}, `${words[component]} units`),
      ),
    ),
    draw("line", { x1: 0, x2: WIDE, y1: HIGH / 2, y2: HIGH / 2, class: "bars-middle" }),
  );
}
