// The served page: fetch the run once, then set up every view.

import { ask, fetchWeights, sendJson } from "./api.js";
import { Asking } from "./ask.js";
import { Comparison } from "./compare.js";
import { Decoder } from "./decoder.js";
import { Workbench } from "./deform.js";
import { find, setUpTheme, tell } from "./dom.js";
import { showRun } from "./hero.js";

const VIEWS = ["prototypes", "ask", "compare"];

async function start() {
  setUpTheme(find(".theme"));
  const [model, weights] = await Promise.all([ask("/api/run"), fetchWeights()]);
  showRun(model);
  if (model.complaint) tell(model.complaint);
  const workbench = new Workbench(find("#prototypes"), new Decoder(model, weights), async (classIndex, component, name) => {
    try {
      return (await sendJson("/api/names", { class: classIndex, component, name }, "PUT")).names;
    } catch (error) {
      tell(error.message);
      throw error;
    }
  });
  ask("/api/exemplars").then((exemplars) => workbench.showExemplars(exemplars), (error) => tell(error.message));
  new Asking(find("#ask"), workbench, (classIndex, capsule) => {
    history.pushState(null, "", "#prototypes");
    show("prototypes");
    workbench.choose(classIndex, false, capsule);
    find(".workbench").scrollIntoView({ block: "start" });
  });
  const comparison = new Comparison(find("#compare"));
  const show = (name) => {
    for (const view of VIEWS) {
      find(`#${view}`).hidden = view !== name;
      const link = find(`nav a[href="#${view}"]`);
      if (view === name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (name === "compare") comparison.open();
  };
  const follow = () => {
    const name = location.hash.slice(1);
    show(VIEWS.includes(name) ? name : VIEWS[0]);
  };
  window.addEventListener("hashchange", () => {
    follow();
    window.scrollTo(0, 0);
  });
  follow();
  document.body.dataset.ready = "yes";
}

start().catch((error) => tell(error.message));
