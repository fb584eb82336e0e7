// The served page: fetch the run once, then set up every view.

import { readAddress } from "./address.js";
import { ask, fetchWeights, sendJson } from "./api.js";
import { Asking } from "./ask.js";
import { Audit } from "./audit.js";
import { Comparison } from "./compare.js";
import { Decoder } from "./decoder.js";
import { Workbench } from "./deform.js";
import { find, setUpSkipping, setUpTheme, tell } from "./dom.js";
import { setTitle, showRun } from "./hero.js";
import { setUpTerms } from "./terms.js";

async function start() {
  setUpTheme(find(".theme"));
  setUpSkipping();
  const [model, weights] = await Promise.all([ask("/api/run"), fetchWeights()]);
  setUpTerms(model);
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
  const asking = new Asking(find("#ask"), workbench, (classIndex, capsule) => {
    history.pushState(null, "", "#prototypes");
    show("prototypes");
    workbench.choose(classIndex, false, capsule);
    find(".workbench").scrollIntoView({ block: "start" });
  });
  const views = { prototypes: workbench, ask: asking, compare: new Comparison(find("#compare"), asking) };
  if (model.audit) {
    views.audit = new Audit(find("#audit"), model.classes);
    find('nav a[href="#audit"]').hidden = false;
  } else find("#audit").remove();
  let current = null;
  const entitle = () => setTitle(model, views[current].title());
  const show = (name) => {
    current = name;
    for (const view of Object.keys(views)) {
      find(`#${view}`).hidden = view !== name;
      const link = find(`nav a[href="#${view}"]`);
      if (view === name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    entitle();
  };
  for (const [name, view] of Object.entries(views)) view.changed = () => name === current && entitle();
  const follow = () => {
    const { view, state } = readAddress();
    show(view in views ? view : model.audit ? "audit" : "prototypes");
    views[current].restore(state);
  };
  window.addEventListener("hashchange", () => {
    follow();
    window.scrollTo(0, 0);
  });
  follow();
  ask("/api/exemplars").then((exemplars) => workbench.showExemplars(exemplars), (error) => tell(error.message));
  ask("/api/evolution").then((evolution) => workbench.gallery.showEvolution(evolution), (error) => tell(error.message));
  document.body.dataset.ready = "yes";
}

start().catch((error) => tell(error.message));
