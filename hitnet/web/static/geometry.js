// What the numbers of a capsule mean: distances, zones, ranges.

/** The capsule at the centre of its class. */
export function centre(model) {
  return new Array(model.dims).fill(0.5);
}

/** Whether a component belongs to the style: it has no say in the distance and is the same for every class. */
export function isStyle(model, component) {
  return component >= model.counted;
}

/** What a component is called until someone names it. */
export function labelOf(model, component) {
  return `${isStyle(model, component) ? "Style" : "Component"} ${component}`;
}

export function distanceOf(model, capsule) {
  return Math.hypot(...capsule.slice(0, model.counted).map((value) => value - 0.5));
}

/** Whether the radii of the verdict were found on held-out images. */
export function isCalibrated(model) {
  return Array.isArray(model.radii);
}

/** How near is a hit for a class: as found on held-out images, otherwise as in training. */
export function hitRadius(model, classIndex) {
  return model.radii?.[classIndex] ?? model.hit_radius;
}

/** hit, between or miss. */
export function zoneOf(model, distance, classIndex) {
  return distance <= hitRadius(model, classIndex) ? "hit" : distance >= model.miss_radius ? "miss" : "between";
}

/** The largest distance shown: a corner of the hypercube, or a little beyond the start of the miss zone. */
export function farthest(model) {
  return Math.max(Math.sqrt(model.counted) / 2, 1.1 * model.miss_radius);
}

/** A distance as a share of the largest, on a square-root scale: on a linear one the hit zone would be too small to see. */
export function placeOf(model, distance) {
  return Math.min(1, Math.sqrt(distance / farthest(model)));
}

/** The ranges of the sliders: two units each way as in the paper, eight units, everything. */
export function reaches(model) {
  const short = (number) => String(Number(number.toFixed(3)));
  const around = [2, 8].map((units) => Math.min(0.5, units * model.unit));
  return [...new Set([...around, 0.5])].map((reach) => {
    const [low, high] = [0.5 - reach, 0.5 + reach];
    return { low, high, text: `${short(low)} … ${short(high)}` };
  });
}

/** Every component sampled from N(0.5, m/√n), the expected distribution of true-class capsules. */
export function randomCapsule(model) {
  return centre(model).map((value) => {
    const gauss = Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
    return Math.min(1, Math.max(0, value + model.unit * gauss));
  });
}
