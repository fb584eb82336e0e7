// The view and its state in the address, so that what is seen can be linked: #prototypes?class=3&moved=5:0.52,8:0.47

/** The view and its state as it is in the address. */
export function readAddress() {
  const [view, query] = location.hash.slice(1).split("?");
  return { view, state: new URLSearchParams(query ?? "") };
}

/** Write the state into the address, without a new entry in the history; values are texts, empty ones are left out. */
export function writeAddress(view, state) {
  const query = Object.entries(state).filter(([, value]) => value).map(([key, value]) => `${key}=${value}`).join("&");
  history.replaceState(null, "", `#${view}${query && "?"}${query}`);
}

/** The sliders as text, those at rest left out: 5:0.52,8:0.47 */
export function moved(capsule) {
  return capsule.flatMap((value, component) => (value === 0.5 ? [] : `${component}:${Number(value.toFixed(4))}`)).join(",");
}

/** The capsule of such a text; what is no component or no value in 0..1 is left out. */
export function unmoved(text, dims) {
  const capsule = new Array(dims).fill(0.5);
  for (const each of (text ?? "").split(",")) {
    const [component, value] = each.split(":").map(Number);
    if (Number.isInteger(component) && component >= 0 && component < dims && value >= 0 && value <= 1) capsule[component] = value;
  }
  return capsule;
}
