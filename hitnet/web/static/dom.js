// Small functions that every part of the page uses.

/** Make an element: make("button", { class: "quiet", onclick: f }, "text", child). */
export function make(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** The same for SVG. */
export function draw(tag, properties = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A name that people gave: its direction of writing does not disturb the text around it. */
export function bdi(name) {
  return make("bdi", {}, name);
}

export function find(selector, within = document) {
  return within.querySelector(selector);
}

/** Show a message at the bottom of the page; screen readers read it aloud. */
export function tell(message, kind = "error") {
  const box = find("#messages");
  const note = make(
    "div",
    { class: `message ${kind}` },
    make("p", {}, message),
    make("button", { class: "close", type: "button", "aria-label": "Dismiss", onclick: () => note.remove() }, "×"),
  );
  box.replaceChildren(note);
  if (kind !== "error") setTimeout(() => note.remove(), 4000);
}

/** Radio buttons that look like one control; `choose` gets the value. */
export function segments(label, options, chosen, choose) {
  const name = `choice-${(segments.count = (segments.count ?? 0) + 1)}`;
  return make(
    "fieldset",
    { class: "segments" },
    make("legend", {}, label),
    ...options.map(([value, text]) =>
      make(
        "label",
        {},
        make("input", { type: "radio", name, value, checked: value === chosen, onchange: () => choose(value) }),
        make("span", {}, text),
      ),
    ),
  );
}

/** Wait until the browser is idle. */
export function idle() {
  return new Promise((resolve) =>
    "requestIdleCallback" in window ? requestIdleCallback(resolve, { timeout: 500 }) : setTimeout(resolve, 16),
  );
}

export function signed(number, digits = 1) {
  const text = Math.abs(number).toFixed(digits);
  return Number(text) === 0 ? text : (number < 0 ? "−" : "+") + text;
}

/** Light, dark or the system's colours; the choice is remembered if the browser allows it. */
export function setUpTheme(button) {
  const words = { auto: "System colours", light: "Light colours", dark: "Dark colours" };
  const order = Object.keys(words);
  let theme = "auto";
  try {
    theme = localStorage.getItem("hitnet-theme") ?? "auto";
  } catch {
    // A page opened from disk may not be allowed to store anything.
  }
  const apply = () => {
    document.documentElement.dataset.theme = theme;
    button.setAttribute("aria-label", `${words[theme]}; press to change`);
    button.title = words[theme];
    button.dataset.theme = theme;
  };
  button.addEventListener("click", () => {
    theme = order[(order.indexOf(theme) + 1) % order.length];
    try {
      localStorage.setItem("hitnet-theme", theme);
    } catch {
      // See above.
    }
    apply();
  });
  if (!order.includes(theme)) theme = "auto";
  apply();
}

/** Whether the person asked for less motion. */
export function calm() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/** The skip link moves the focus and leaves the address alone, which says what is seen. */
export function setUpSkipping() {
  find(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    find("main").focus();
  });
}
