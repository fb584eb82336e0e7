// The page as one file: model and weights are embedded, nothing is fetched.

import { Decoder } from "./decoder.js";
import { Workbench } from "./deform.js";
import { find, setUpTheme } from "./dom.js";
import { showRun } from "./hero.js";
import { bytesFromBase64 } from "./picture.js";

const model = JSON.parse(find("#model").textContent);
setUpTheme(find(".theme"));
showRun(model);
const workbench = new Workbench(find("#prototypes"), new Decoder(model, bytesFromBase64(find("#weights").textContent.trim()).buffer), null);
workbench.showExemplars(JSON.parse(find("#exemplars").textContent));
document.body.dataset.ready = "yes";
