// Real training pictures beside the drawn ones.

import { find, make } from "./dom.js";
import { labelOf } from "./geometry.js";

/** Pictures of one class, and at both ends of each component; `exemplars` may be a note that says why there are none. */
export function showReal(root, rows, model, classIndex, exemplars) {
  const { note, pictures, typical, ends } = exemplars ?? {};
  find(".real", root).hidden = !note && !pictures?.length;
  find(".real-words", root).textContent = note ?? "Typical of this class. The picture above is drawn by the network.";
  if (!pictures) return;
  const name = model.classes[classIndex];
  const show = (places, words) => places.map((place) => make("li", {}, realPicture(pictures[place], words)));
  find(".typical", root).replaceChildren(...show(typical[classIndex], `a typical real ${name}`));
  find(".ends-words", root).hidden = !ends.flat(3).length;
  rows.forEach((row, component) => {
    const label = labelOf(model, component).toLowerCase();
    const [low, high] = ends[classIndex][component].map((places, side) =>
      make(
        "ul",
        { "aria-label": `Real pictures, ${label} ${side ? "high" : "low"}` },
        ...show(places, `a real ${name}, ${label} ${side ? "high" : "low"}`),
      ),
    );
    row.ends.hidden = !low.childElementCount && !high.childElementCount;
    row.ends.replaceChildren(low, make("span", { "aria-hidden": "true" }, "real"), high);
  });
}

export function realPicture(base64, words) {
  return make("img", { class: "picture", src: `data:image/webp;base64,${base64}`, alt: words });
}
