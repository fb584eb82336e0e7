// Distances as arrows on a target: the middle is a hit, the outer ring a miss.

import { farthest, zoneOf } from "./deform.js";
import { draw, make } from "./dom.js";

const RADIUS = 150;
const LABELLED = 24; // with more classes than this, only the nearest are labelled on the target
const LISTED = 8;

const WORDS = { hit: "hit", between: "between", miss: "miss" };

/** The target with one mark for each class. */
export function target(model, scores, winner) {
  const place = (distance) => RADIUS * Math.min(1, Math.sqrt(distance / farthest(model)));
  const order = ranking(scores);
  const named = new Set();
  const taken = [];
  for (const index of order.slice(0, scores.length <= LABELLED ? undefined : 8)) {
    const spot = labelSpot(model, scores, index, winner, place);
    if (taken.every((other) => Math.abs(other.x - spot.x) > (other.width + spot.width) / 2 || Math.abs(other.y - spot.y) > 13)) {
      taken.push(spot);
      named.add(index);
    }
  }
  const zones = [
    draw("circle", { r: RADIUS, class: "zone-miss" }),
    draw("circle", { r: place(model.miss_radius), class: "zone-between" }),
    draw("circle", { r: place((model.miss_radius + model.hit_radius) / 4), class: "ring" }),
    draw("circle", { r: place(model.hit_radius), class: "zone-hit" }),
    draw("circle", { r: 1.5, class: "bull" }),
  ];
  const scale = [["hit", model.hit_radius], ["miss", model.miss_radius]].map(([word, distance]) =>
    draw("text", { x: 0, y: place(distance) + (word === "miss" ? -5 : 12), class: "ring-label" }, `${word} ${distance}`),
  );
  // The farthest first, so that the nearest lies on top.
  const marks = [...order].reverse().map((index) => {
    const [x, y] = direction(index, scores.length);
    const at = place(scores[index]);
    const zone = zoneOf(model, scores[index]);
    const won = index === winner;
    const label = labelSpot(model, scores, index, winner, place);
    return draw(
      "g",
      { class: `mark ${zone}${won ? " winner" : ""}` },
      draw("line", { x1: x * (RADIUS + 4), y1: y * (RADIUS + 4), x2: x * at, y2: y * at, class: "shaft" }),
      draw("circle", { cx: x * at, cy: y * at, r: won ? 7 : named.has(index) ? 4.5 : 3 }),
      named.has(index)
        ? draw("text", { x: label.x, y: label.y, class: "mark-label" }, shorten(model.classes[index]))
        : null,
      draw("title", {}, `${model.classes[index]}: ${scores[index].toFixed(3)}, ${WORDS[zone]}`),
    );
  });
  const margin = RADIUS + 26;
  return draw(
    "svg",
    { viewBox: `${-margin} ${-margin} ${2 * margin} ${2 * margin}`, class: "target", role: "img",
      "aria-label": `Distances to the centres of ${scores.length} classes; the list next to it gives the numbers` },
    ...zones, ...marks, ...scale,
  );
}

/** The same as a list, the nearest class first. */
export function distanceList(model, scores, winner, label) {
  const order = ranking(scores);
  const rows = order.map((index, rank) => {
    const zone = zoneOf(model, scores[index]);
    const bar = make("span", { class: `bar ${zone}` });
    bar.style.width = `${100 * Math.min(1, Math.sqrt(scores[index] / farthest(model)))}%`;
    return make(
      "li",
      { class: index === winner ? "distance winner" : "distance", hidden: rank >= LISTED && scores.length > LISTED + 2 },
      make("span", { class: "distance-name" }, model.classes[index], index === label ? make("em", {}, "true class") : null),
      make("span", { class: "bar-track", "aria-hidden": "true" }, bar),
      make("span", { class: "distance-number" }, scores[index].toFixed(3)),
      make("span", { class: `zone-word ${zone}` }, WORDS[zone]),
    );
  });
  const long = model.classes.some((name) => name.length > 7);
  const list = make("ol", { class: long ? "distances long-names" : "distances", "aria-label": "Distance to each class, nearest first" }, ...rows);
  const hidden = rows.filter((row) => row.hidden);
  if (!hidden.length) return list;
  const more = make("button", { type: "button", class: "quiet small", onclick: () => {
    hidden.forEach((row) => (row.hidden = false));
    more.remove();
  } }, `Show the other ${hidden.length} classes`);
  return make("div", {}, list, more);
}

function direction(index, count) {
  const angle = (2 * Math.PI * index) / count - Math.PI / 2;
  return [Math.cos(angle), Math.sin(angle)];
}

/** Where a class's name goes: a little outside its mark, and how much room it takes. */
function labelSpot(model, scores, index, winner, place) {
  const [x, y] = direction(index, scores.length);
  const width = shorten(model.classes[index]).length * (index === winner ? 9 : 6.8);
  const at = place(scores[index]) + (index === winner ? 18 : 14);
  // Next to its shaft if that points up or down; otherwise, the longer the name, the further out.
  const aside = index === winner && Math.abs(x) < 0.4 ? width / 2 + 12 : (Math.max(0, width - 12) / 2) * x;
  return { x: x * at + aside, y: y * at, width };
}

function ranking(scores) {
  return scores.map((_, index) => index).sort((first, second) => scores[first] - scores[second]);
}

function shorten(name) {
  return name.length > 12 ? `${name.slice(0, 11)}…` : name;
}
