// Decide about the suspects of an audit, one at a time. The server writes every decision before it answers.

import { writeAddress } from "./address.js";
import { ask, sendJson } from "./api.js";
import { bdi, find, make, tell } from "./dom.js";

const SHOWS = [["wrong label", "wrong labels"], ["ambiguous", "ambiguous"], ["odd", "odd"], ["fine", "fine"], ["copies", "copies"], ["all", "all pictures"], ["decided", "decided"]];
const MOST_NAMED = 5; // copies of a picture

export class Audit {
  constructor(root, classes) {
    this.root = root;
    this.classes = classes;
    this.changed = () => {};
    [this.show, this.place, this.suspect, this.version, this.pending] = ["wrong label", 0, null, null, 0];
    this.showing = find(".audit-show", root);
    this.other = find(".other-class", root);
    this.showing.addEventListener("change", () => this.go(this.showing.value, 0));
    this.other.append(make("option", { value: "" }, "another class …"), ...classes.map((name, index) => make("option", { value: index }, name)));
    this.other.addEventListener("change", () => this.other.value && this.decide("relabel", classes[this.other.value]));
    const buttons = {
      ".keep": () => this.decide("keep"),
      ".suggest": () => this.decideSuggested(),
      ".leave-out": () => this.decide("leave out"),
      ".undo": () => this.undo(),
      ".back": () => this.step(-1),
      ".next": () => this.step(1),
    };
    for (const [selector, work] of Object.entries(buttons)) find(selector, root).addEventListener("click", work);
    document.addEventListener("keydown", (event) => this.press(event));
    window.addEventListener("focus", () => !root.hidden && this.look());
  }

  title() {
    return "Audit";
  }

  async restore(state) {
    const show = SHOWS.some(([value]) => value === state.get("show")) ? state.get("show") : "wrong label";
    try {
      this.fill(await ask("/api/audit"));
    } catch (error) {
      tell(error.message);
    }
    await this.go(show, Number(state.get("place") ?? 1) - 1 || 0);
  }

  fill(audit) {
    this.showing.replaceChildren(...SHOWS.map(([value, words]) => make("option", { value }, counted(words, audit.counts[value]))));
    this.showing.value = this.show;
    find(".audit-file", this.root).textContent = audit.file;
    find(".audit-command", this.root).textContent = `hitnet train --data ${quoted(audit.data)} --corrections ${quoted(audit.file)}`;
  }

  press(event) {
    if (this.root.hidden || event.ctrlKey || event.metaKey || event.altKey) return;
    const field = event.target.matches?.("input, textarea, select") ? event.target : null;
    if (field && (field.tagName !== "SELECT" || isOpen(field))) return;
    if (field && event.key.startsWith("Arrow") && field !== this.other) return;
    let work = {
      k: () => this.decide("keep"),
      s: () => this.decideSuggested(),
      r: () => this.choose(),
      x: () => this.decide("leave out"),
      u: () => this.undo(),
      ArrowLeft: () => this.step(-1),
      ArrowRight: () => this.step(1),
    }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    // A list that is closed would take the class that begins with this letter, and so decide.
    if (field === this.other && (event.key.startsWith("Arrow") || (!work && event.key.length === 1))) work = () => this.choose();
    if (!work) return;
    event.preventDefault();
    field?.blur();
    work();
  }

  choose() {
    this.other.focus();
    this.other.showPicker?.();
  }

  step(by) {
    if (!this.pending) this.go(this.show, this.place + by);
  }

  /** Show the suspect at a place; only the newest request counts. */
  async go(show, place, index = null) {
    this.show = show;
    this.showing.value = show;
    const asked = (this.asked = (this.asked ?? 0) + 1);
    const query = new URLSearchParams({ show, place: Math.max(0, place), ...(index === null ? {} : { index }) });
    await this.while(async () => {
      const suspect = await ask(`/api/audit/one?${query}`);
      if (asked === this.asked) this.fillSuspect(suspect);
    });
  }

  fillSuspect(suspect) {
    [this.suspect, this.place, this.version] = [suspect.total ? suspect : null, suspect.place, suspect.version];
    const there = suspect.total > 0;
    find(".suspect", this.root).hidden = !there;
    find(".no-suspect", this.root).hidden = there;
    for (const selector of [".keep", ".suggest", ".leave-out", ".other-class"]) find(selector, this.root).disabled = !there;
    find(".undo", this.root).disabled = !suspect.decided;
    find(".back", this.root).disabled = !there || suspect.place === 0;
    find(".next", this.root).disabled = !there || suspect.place >= suspect.total - 1;
    const far = there ? `${(suspect.place + 1).toLocaleString("en")} of ${suspect.total.toLocaleString("en")}, ` : "";
    find(".audit-place", this.root).textContent = `${far}${suspect.decided.toLocaleString("en")} decided`;
    for (const option of this.showing.options) if (option.value === "decided") option.textContent = counted("decided", suspect.decided);
    writeAddress("audit", { show: this.show, place: there ? String(suspect.place + 1) : "" });
    this.root.dataset.index = there ? suspect.index : "";
    if (there) this.fillWords(suspect);
  }

  fillWords(suspect) {
    const [given, suggested] = [this.classes[suspect.given], this.classes[suspect.suggested]];
    const same = suspect.given === suspect.suggested;
    find(".suspect-kind", this.root).textContent = `${suspect.kind}: ${suspect.kind_words}`;
    find(".suspect-title", this.root).replaceChildren("Is this ", bdi(given), ...(same ? ["?"] : [" or ", bdi(suggested), "?"]));
    const distances = same ? `${suspect.own.toFixed(2)}` : `${suspect.own.toFixed(2)} to the given, ${suspect.nearest.toFixed(2)} to the suggested class`;
    find(".suspect-words", this.root).replaceChildren(
      `Label quality ${suspect.quality.toPrecision(2)}. Distance ${distances}; up to 1 is a hit.`,
      ...(suspect.copies.length ? [" Copies of this picture: ", ...listed(suspect.copies), "."] : []),
      ...(suspect.missing ? [` ${suspect.missing}`] : []),
    );
    find(".suspect-path", this.root).replaceChildren(bdi(suspect.path), ` (${suspect.split})`);
    find(".given-name", this.root).replaceChildren(bdi(given));
    find(".suggested-name", this.root).replaceChildren(bdi(suggested));
    find(".suggest", this.root).disabled = same;
    this.other.value = "";
    const { decision } = suspect;
    find(".decision-words", this.root).replaceChildren(
      ...(decision ? [{ keep: "Kept as ", relabel: "Relabelled as ", "leave out": "Left out" }[decision.action], ...(decision.action === "leave out" ? [] : [bdi(decision.action === "keep" ? given : decision.label)])] : []),
    );
    showPicture(find(".suspect-picture", this.root), suspect.picture);
    find(".suspect-drawn", this.root).hidden = !suspect.prototypes;
    if (!suspect.prototypes) return;
    const drawn = { ".of-given": [suspect.prototypes[0], "prototype of the given class ", given], ".of-suggested": [suspect.prototypes[1], "prototype of the suggested class ", suggested] };
    for (const [selector, [picture, words, name]] of Object.entries(drawn)) {
      showPicture(find(`${selector} img`, this.root), picture);
      find(`${selector} figcaption`, this.root).replaceChildren(words, make("strong", {}, bdi(name)));
    }
    showPicture(find(".of-network img", this.root), suspect.redrawn);
    find(".of-suggested", this.root).hidden = same;
  }

  decideSuggested() {
    if (this.suspect && this.suspect.given !== this.suspect.suggested) this.decide("relabel", this.classes[this.suspect.suggested]);
  }

  /** Decide about the suspect that is shown, then go to the next one. */
  async decide(action, label = "") {
    if (!this.suspect) return;
    const { path } = this.suspect;
    await this.send("/api/audit/decide", { path, action, label, version: this.version }, () => this.go(this.show, this.show === "decided" ? this.place : this.place + 1));
    this.other.blur();
  }

  undo() {
    return this.send("/api/audit/undo", { version: this.version }, ({ index }) => this.go(this.show, this.place, index));
  }

  /** One request at a time: a key pressed twice by haste decides once, and nothing is decided about a picture to come. */
  async send(path, content, then) {
    if (this.pending) return;
    const work = async () => {
      const answer = await sendJson(path, content, "PUT");
      this.version = answer.version;
      await then(answer);
    };
    await this.while(work, () => this.go(this.show, this.place));
  }

  /** Do something that takes a while; until then, keys and buttons have no effect. */
  async while(work, otherwise = () => {}) {
    this.pending += 1;
    try {
      await work();
    } catch (error) {
      tell(error.message);
      await otherwise();
    } finally {
      this.pending -= 1;
    }
  }

  /** The window is looked at again: has another one decided meanwhile? */
  async look() {
    const audit = await ask("/api/audit").catch(() => null);
    if (!audit || audit.version === this.version) return;
    this.fill(audit);
    tell("Another window, or an editor, has changed the decisions. They are shown now.", "note");
    this.go(this.show, this.place);
  }
}

/** Without a picture, nothing is shown. */
function showPicture(image, base64) {
  image.hidden = !base64;
  if (base64) image.src = `data:image/webp;base64,${base64}`;
}

function counted(words, number) {
  return `${words} (${number.toLocaleString("en")})`;
}

/** Names with commas between them; of many, the first. */
function listed(names) {
  const parts = names.slice(0, MOST_NAMED).flatMap((name, index) => (index ? [", ", bdi(name)] : [bdi(name)]));
  return names.length > MOST_NAMED ? [...parts, ` and ${names.length - MOST_NAMED} more`] : parts;
}

/** Whether a list shows its choices; where a browser does not say, keys are left to it. */
function isOpen(select) {
  return !CSS.supports("selector(:open)") || select.matches(":open");
}

/** A path as a shell wants it. */
function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}
