// A picture file: dropped, chosen or pasted.

import { find, make, tell } from "./dom.js";
import { inkOfFile, isLikeMnist } from "./ink.js";

const LARGEST = 10_000_000;

export class FileSource {
  /** `send(blob, invert, file name, note)` asks about a picture; `opened()` is called when one comes from elsewhere. */
  constructor(view, model, send, opened) {
    this.model = model;
    this.send = send;
    const again = () => this.file && this.take(this.file);
    const input = make("input", { type: "file", accept: "image/png,image/jpeg,image/webp,image/bmp,image/gif,image/tiff", class: "file-input" });
    this.inverted = make("input", { type: "checkbox", onchange: again });
    this.centred = make("input", { type: "checkbox", checked: true, onchange: again });
    input.addEventListener("change", () => {
      if (input.files.length) this.take(input.files[0]);
      input.value = "";
    });
    const zone = make(
      "label",
      { class: "drop" },
      input,
      make("strong", {}, "Drop a picture here"),
      make("span", {}, "choose a file or paste one: PNG, JPEG, WebP, BMP, GIF or TIFF, up to 10 MB. It stays on this computer and is not saved."),
    );
    this.element = make(
      "div",
      { class: "drop-box" },
      zone,
      make("label", { class: "inline check" }, this.inverted, "Invert it (dark ink on white paper)"),
      isLikeMnist(model) ? make("label", { class: "inline check" }, this.centred, "Centre and scale as in MNIST") : null,
    );
    const receive = (file) => {
      opened();
      this.take(file);
    };
    for (const kind of ["dragenter", "dragover"]) {
      view.addEventListener(kind, (event) => {
        event.preventDefault();
        zone.classList.add("over");
      });
    }
    view.addEventListener("dragleave", () => zone.classList.remove("over"));
    view.addEventListener("drop", (event) => {
      event.preventDefault();
      zone.classList.remove("over");
      if (event.dataTransfer?.files.length) receive(event.dataTransfer.files[0]);
    });
    document.addEventListener("paste", (event) => {
      if (view.hidden) return;
      const [file] = event.clipboardData?.files ?? [];
      if (file) receive(file);
      else tell("The clipboard holds no picture. Copy one, then paste it here.");
    });
  }

  async take(file) {
    find("#messages").replaceChildren();
    if (file.size > LARGEST) {
      tell(`${file.name} has ${(file.size / 1e6).toFixed(1)} MB; the limit is 10 MB. Make it smaller first.`);
      return;
    }
    this.file = file;
    const invert = this.inverted.checked;
    const ink = isLikeMnist(this.model) && this.centred.checked ? await inkOfFile(file, this.model.shape, invert) : null;
    if (ink) this.send(ink.blob, false, file.name, invert ? `inverted, ${ink.note}` : ink.note);
    else this.send(file, invert, file.name, invert ? "inverted" : null);
  }

  /** Ask about the same file, light for dark. */
  turnOver() {
    this.inverted.checked = !this.inverted.checked;
    this.take(this.file);
  }
}
