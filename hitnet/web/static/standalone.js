// The page as one file: model and weights are embedded, nothing is fetched.

import { readAddress } from "./address.js";
import { Decoder } from "./decoder.js";
import { Workbench } from "./deform.js";
import { find, setUpSkipping, setUpTheme } from "./dom.js";
import { setTitle, showRun } from "./hero.js";
import { bytesFromBase64 } from "./picture.js";
import { setUpTerms } from "./terms.js";

const embedded = (name) => JSON.parse(find(`#${name}`).textContent);
const model = embedded("model");
setUpTheme(find(".theme"));
setUpSkipping();
setUpTerms(model);
showRun(model);
const workbench = new Workbench(find("#prototypes"), new Decoder(model, bytesFromBase64(find("#weights").textContent.trim()).buffer), null);
workbench.showExemplars(embedded("exemplars"));
workbench.gallery.showEvolution(embedded("evolution"));
workbench.changed = () => setTitle(model, workbench.title());
workbench.restore(readAddress().state);
window.addEventListener("hashchange", () => workbench.restore(readAddress().state));
document.body.dataset.ready = "yes";
