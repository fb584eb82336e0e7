// The page of an audit: filters, suspects, pairs of classes, duplicates. All names go in as text, never as HTML.

const PAGE = 60;
const found = JSON.parse(find("#findings").textContent);
let most = PAGE;

function count(number) {
  return number.toLocaleString("en");
}

function showFacts() {
  find(".data-name").append(bdi(found.data));
  document.title = `HitNet audit: ${found.data}`;
  const judges = found.way === "one network" ? "what one network said of them in its first epochs" : `networks that were not trained on them (${found.way})`;
  find(".lede").textContent = `${count(found.images)} pictures, judged by ${judges}.`;
  find(".kinds").append(
    ...Object.entries(found.words).map(([kind, words]) => make("div", {}, make("dt", {}, `${kind}: ${words}`), make("dd", {}, count(found.kinds[kind])))),
  );
  find(".drawn-words").hidden = !found.prototypes.length;
  find(".notes-card").hidden = !found.notes.length;
  find(".notes").append(...found.notes.map((note) => make("li", {}, note)));
}

function setUpFilters() {
  const kinds = Object.keys(found.words).map((kind) => make("option", { value: kind }, kind));
  find(".by-kind").append(make("option", { value: "" }, "every kind"), ...kinds);
  for (const selector of [".by-given", ".by-suggested"]) {
    const classes = found.classes.map((name, index) => make("option", { value: index }, name));
    find(selector).append(make("option", { value: "" }, "every class"), ...classes);
  }
  for (const select of document.querySelectorAll(".filters select")) {
    select.addEventListener("change", () => {
      most = PAGE;
      showSuspects();
    });
  }
  find(".more").addEventListener("click", () => {
    most += PAGE;
    showSuspects();
  });
}

function showSuspects() {
  const [kind, given, suggested] = [".by-kind", ".by-given", ".by-suggested"].map((selector) => find(selector).value);
  const matching = found.pictures.filter(
    (each) =>
      (!kind || each.kind === kind) && (!given || each.given === Number(given)) && (!suggested || each.suggested === Number(suggested)),
  );
  find(".suspects").replaceChildren(...matching.slice(0, most).map(makeSuspect));
  const pair = kind === "wrong label" && given && suggested && found.pairs.find((each) => each[0] === Number(given) && each[1] === Number(suggested));
  const total = pair ? pair[2] : given || suggested ? null : kind ? found.kinds[kind] : found.images;
  const elsewhere = total > matching.length ? `, of ${count(total)} in issues.csv` : "";
  find(".shown-words").textContent = matching.length
    ? `${count(Math.min(most, matching.length))} of ${count(matching.length)} on this page${elsewhere}. It holds the worst ${count(found.most_of_a_kind)} of each kind, and some wrong labels of every pair of classes.`
    : "No such picture on this page; issues.csv lists all of them.";
  find(".more").hidden = matching.length <= most;
}

function makeSuspect(each) {
  const [given, suggested] = [found.classes[each.given], found.classes[each.suggested]];
  const drawn = found.prototypes;
  const pictures = [[each.picture, "the picture", []]];
  if (drawn.length) {
    pictures.push([drawn[each.given], `prototype of ${given}`, ["given: ", bdi(given)]]);
    pictures.push([drawn[each.suggested], `prototype of ${suggested}`, ["suggested: ", bdi(suggested)]]);
    pictures.push([each.redrawn, "the network's drawing of the picture", ["as drawn"]]);
  }
  return make(
    "li",
    { class: "suspect", "data-path": each.path },
    make("div", { class: "suspect-pictures" }, ...pictures.map(([source, alt, words]) =>
      make("figure", {}, make("img", { src: source, alt, loading: "lazy" }), make("figcaption", {}, ...(words.length ? words : ["picture"]))))),
    make("h3", {}, bdi(given), ...(each.given === each.suggested ? [] : [" → ", bdi(suggested)])),
    make("p", {}, make("span", { class: "kind", "data-kind": each.kind }, each.kind),
      ` quality ${each.quality.toPrecision(2)}; distance ${each.own.toFixed(2)}${each.given === each.suggested ? "" : ` given, ${each.nearest.toFixed(2)} suggested`}`),
    make("p", {}, bdi(each.path)),
  );
}

function choosePair(given, suggested) {
  [find(".by-kind").value, find(".by-given").value, find(".by-suggested").value] = ["wrong label", given, suggested];
  most = PAGE;
  showSuspects();
  find(".filters").scrollIntoView({ block: "start" });
}

function showPairs() {
  const total = found.kinds["wrong label"];
  find(".pairs-words").textContent = total
    ? "How many pictures are taken for another class. Choose a number to see them."
    : "No label is called wrong.";
  if (!found.pairs.length) return;
  const largest = Math.max(...found.pairs.map(([, , number]) => number));
  const button = ([given, suggested, number]) =>
    make("button", {
      type: "button", "data-share": number / largest, "aria-label": `${number} given ${found.classes[given]}, suggested ${found.classes[suggested]}`,
      onclick: () => choosePair(given, suggested),
    }, count(number));
  const rows = found.matrix ? makeMatrix(button) : makeList(button);
  find(".pairs-box").append(rows);
  for (const each of document.querySelectorAll("[data-share]")) each.style.setProperty("--share", each.dataset.share);
}

function makeMatrix(button) {
  const cells = new Map(found.pairs.map((pair) => [`${pair[0]},${pair[1]}`, pair]));
  const numbers = found.classes.map((_, index) => index);
  return make(
    "table",
    {},
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "given ↓ suggested →"), ...found.classes.map((name) => make("th", { scope: "col" }, bdi(name))))),
    make("tbody", {}, ...numbers.map((given) =>
      make("tr", {}, make("th", { scope: "row" }, bdi(found.classes[given])), ...numbers.map((suggested) => {
        const pair = cells.get(`${given},${suggested}`);
        return make("td", {}, pair ? button(pair) : "");
      })))),
  );
}

function makeList(button) {
  return make(
    "table",
    {},
    make("thead", {}, make("tr", {}, ...["given", "suggested", "pictures"].map((title) => make("th", { scope: "col" }, title)))),
    make("tbody", {}, ...found.pairs.map((pair) =>
      make("tr", {}, make("th", {}, bdi(found.classes[pair[0]])), make("th", {}, bdi(found.classes[pair[1]])), make("td", {}, button(pair))))),
  );
}

function showSets() {
  const { sets, exact, near, in_different_classes: classes, across_splits: splits } = found.duplicates;
  find(".sets-words").textContent = sets
    ? `${count(exact)} sets of pictures with the same pixels, ${count(near)} of pictures that are nearly the same; ${count(classes)} have pictures of different classes, ${count(splits)} are spread over training and test.${found.more_sets ? ` The first ${found.sets.length} are shown.` : ""}`
    : "No picture occurs twice.";
  find(".sets").append(...found.sets.map((set) =>
    make(
      "li",
      {},
      make("p", {}, make("strong", {}, set.across_classes ? "different classes" : "same class"),
        `${set.size} pictures, ${set.exact ? "same pixels" : "nearly the same"}${set.across_splits ? ", in training and test" : ""}`),
      ...set.pictures.map((each) =>
        make("figure", {}, make("img", { src: each.picture, alt: "", loading: "lazy" }),
          make("figcaption", {}, make("strong", {}, bdi(found.classes[each.given])), bdi(each.path)))),
    )));
}

setUpTheme(find(".theme"));
setUpSkipping();
showFacts();
setUpFilters();
showSuspects();
showPairs();
showSets();
document.body.dataset.ready = "yes";
