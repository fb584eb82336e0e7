// Distances as arrows on a target: the middle is a hit, the outer ring a miss.

import { bdi, draw, make } from "./dom.js";
import { hitRadius, isCalibrated, placeOf, zoneOf } from "./geometry.js";

const RADIUS = 150;
const LABELLED = 24; // with more classes than this, only the nearest are labelled on the target
const LISTED = 8;

/** The target with one mark for each class; a small one names at most the winner. */
export function target(model, scores, winner, small = false) {
  const place = (distance) => RADIUS * placeOf(model, distance);
  const order = ranking(scores);
  const margin = RADIUS + (small ? 6 : model.classes.some((name) => name.length > 4) ? 64 : 26);
  const named = new Map();
  const few = small && model.classes[winner].length > 3 ? [] : [winner]; // a small target has room for a short name
  for (const index of small ? few : order.slice(0, scores.length <= LABELLED ? undefined : 8)) {
    const spot = labelSpot(model, scores, index, winner, place, margin, small ? 2 : 1);
    const free = (other) => Math.abs(other.x - spot.x) > (other.width + spot.width) / 2 || Math.abs(other.y - spot.y) > 13;
    if ([...named.values()].every(free)) named.set(index, spot);
  }
  const hit = hitRadius(model, winner);
  const zones = [
    draw("circle", { r: RADIUS, class: "zone-miss" }),
    draw("circle", { r: place(model.miss_radius), class: "zone-between" }),
    draw("circle", { r: place((model.miss_radius + hit) / 4), class: "ring" }),
    draw("circle", { r: place(hit), class: "zone-hit" }),
    hit >= model.miss_radius ? draw("circle", { r: place(model.miss_radius), class: "ring" }) : null,
    isCalibrated(model) ? draw("circle", { r: place(model.hit_radius), class: "ring-training" }) : null,
    draw("circle", { r: 1.5, class: "bull" }),
  ];
  const scale = small ? [] : [[isCalibrated(model) ? "usual" : "trained", hit, 12], ["miss", model.miss_radius, -5]].filter(([word]) => word !== "miss" || Math.abs(place(hit) - place(model.miss_radius)) > 30).map(([word, distance, down]) =>
    draw("text", { x: 0, y: place(distance) + down, class: "ring-label" }, `${word} ${Number(distance.toFixed(3))}`),
  );
  // The farthest first, so that the nearest lies on top.
  const marks = [...order].reverse().map((index) => {
    const [x, y] = direction(index, scores.length);
    const at = place(scores[index]);
    const zone = zoneOf(model, scores[index], index);
    const won = index === winner;
    const label = named.get(index);
    return draw(
      "g",
      { class: `mark ${zone}${won ? " winner" : ""}` },
      draw("line", { x1: x * (RADIUS + 4), y1: y * (RADIUS + 4), x2: x * at, y2: y * at, class: "shaft" }),
      draw("circle", { cx: x * at, cy: y * at, r: (won ? 7 : label ? 4.5 : 3) * (small ? 1.6 : 1) }),
      label ? draw("text", { x: label.x, y: label.y, class: "mark-label" }, shorten(model.classes[index])) : null,
      draw("title", {}, `${model.classes[index]}: ${scores[index].toFixed(3)}, ${zone}`),
    );
  });
  const words = small
    ? `${model.classes[winner]} lies ${scores[winner].toFixed(3)} from the centre; a hit is within ${Number(hit.toFixed(3))}`
    : `Distances to the centres of ${scores.length} classes; the list next to it gives the numbers`;
  return draw(
    "svg",
    { viewBox: `${-margin} ${-margin} ${2 * margin} ${2 * margin}`, class: small ? "target small-target" : "target", role: "img", "aria-label": words },
    ...zones.filter(Boolean), ...marks, ...scale,
  );
}

/** The same as a list, the nearest class first. */
export function distanceList(model, scores, winner, label) {
  const order = ranking(scores);
  const rows = order.map((index, rank) => {
    const zone = zoneOf(model, scores[index], index);
    const radius = hitRadius(model, index);
    const track = make("span", { class: "bar-track", "aria-hidden": "true" }, make("span", { class: `bar ${zone}` }), make("span", { class: "bar-radius" }));
    track.style.setProperty("--long", `${100 * placeOf(model, scores[index])}%`);
    track.style.setProperty("--radius", `${100 * placeOf(model, radius)}%`);
    return make(
      "li",
      {
        class: index === winner ? "distance winner" : "distance", hidden: rank >= LISTED && scores.length > LISTED + 2,
        title: `A hit within ${Number(radius.toFixed(3))}`,
      },
      make("span", { class: "distance-name" }, bdi(model.classes[index]), index === label ? make("em", {}, "true class") : null),
      track,
      make("span", { class: "distance-number" }, scores[index].toFixed(3)),
      make("span", { class: `zone-word ${zone}` }, zone),
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

/** Where a class's name goes: a little outside its mark but inside the picture, and how much room it takes. */
function labelSpot(model, scores, index, winner, place, margin, size) {
  const [x, y] = direction(index, scores.length);
  const width = shorten(model.classes[index]).length * (index === winner ? 9 : 6.8) * size;
  const at = place(scores[index]) + (index === winner ? 18 : 14) * size;
  // Next to its shaft if that points up or down; otherwise, the longer the name, the further out.
  const aside = index === winner && Math.abs(x) < 0.4 ? width / 2 + 12 : (Math.max(0, width - 12 * size) / 2) * x;
  const most = margin - width / 2;
  return { x: Math.max(-most, Math.min(most, x * at + aside)), y: y * at, width };
}

function ranking(scores) {
  return scores.map((_, index) => index).sort((first, second) => scores[first] - scores[second]);
}

function shorten(name) {
  return name.length > 12 ? `${name.slice(0, 11)}…` : name;
}
