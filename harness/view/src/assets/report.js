// The report of a run: the list of scenarios with its filters, and the scenario that was chosen.
// A link ends with #CASE or #CASE@WRITE.

const element = (id) => document.getElementById(id);
const cases = JSON.parse(element("cases").textContent);
const SYMBOLS = { passed: "✔", failed: "✘", pending: "?", skipped: "○", "not-run": "–" };
let shown = null;

const filterCases = () => {
  const wanted = {
    status: element("status").value, area: element("area").value, tag: element("tag").value,
  };
  const words = element("text").value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const item of document.querySelectorAll("#list li")) {
    const of = cases[Number(item.dataset.case)];
    const isShown = (!wanted.status || of.outcome === wanted.status || (wanted.status === "flaky" && of.flaky))
      && (!wanted.area || item.dataset.area === wanted.area)
      && (!wanted.tag || of.tags.includes(wanted.tag))
      && words.every((word) => item.dataset.text.includes(word));
    item.hidden = !isShown;
    count += isShown ? 1 : 0;
  }
  for (const group of document.querySelectorAll("#list details")) {
    group.hidden = !group.querySelector("li:not([hidden])");
    if (wanted.status || words.length || wanted.tag) group.open = !group.hidden;
  }
  element("count").textContent = `${count} of ${cases.length} scenarios`;
};

const drawStep = (step, index, report) => {
  const ends = report.player ? report.player.timeline.steps[index] : undefined;
  const jump = ends === undefined ? null : make("button", {
    type: "button", class: "jump", text: "show", "aria-label": `Show the cluster after: ${step.text}`,
    onclick: () => { report.player.show(ends); report.player.element.scrollIntoView({ block: "start" }); },
  });
  return make("li", { class: `step ${step.outcome}` },
    make("span", { class: "symbol", role: "img", "aria-label": step.outcome, text: SYMBOLS[step.outcome] }),
    " ", make("b", { text: step.keyword }), ` ${step.text} `, jump,
    (step.below || []).length ? make("pre", { tabindex: "0", text: step.below.join("\n") }) : null);
};

// The cluster before and after the step that failed.
const drawFailedStep = (of, timeline) => {
  const failed = of.steps.findIndex((step) => step.outcome === "failed" || step.outcome === "pending");
  if (failed < 0 || timeline.steps[failed] === undefined) return null;
  const [begin, end] = [failed ? timeline.steps[failed - 1] : 0, timeline.steps[failed]];
  const [before, after] = [timeline.stateAt(begin), timeline.stateAt(end)];
  const differs = (name) => JSON.stringify(before.nodes.get(name)) !== JSON.stringify(after.nodes.get(name));
  const changed = new Set([...before.nodes.keys(), ...after.nodes.keys()].filter(differs));
  const picture = (title, state, marks) => make("figure", {},
    make("figcaption", { text: title }), drawNodes(state, marks), drawQueues(state), drawPending(state));
  return make("div", { class: "pair" },
    picture("Before the failed step", before, new Set()),
    picture(`After it (${changed.size} nodes changed)`, after, changed));
};

const drawFailure = (of, timeline) => {
  if (!of.failure) return [];
  const title = of.flaky ? "The first attempt failed" : "Why it failed";
  return [
    make("h3", { text: title }),
    make("pre", { class: "failure", tabindex: "0", text: of.failure.message }),
    timeline ? drawFailedStep(of, timeline) : null,
  ];
};

const reproduceLine = (of) => (of.failure ? of.failure.reproduce : `schedlab run '${of.file}:${of.line}' --seed ${element("cases").dataset.seed}`);

const showCase = async (index, write) => {
  const of = cases[index];
  if (!of) return;
  for (const button of document.querySelectorAll("#list button[aria-current]")) button.removeAttribute("aria-current");
  const chosen = document.querySelector(`#list li[data-case="${index}"] button`);
  if (chosen) chosen.setAttribute("aria-current", "true");
  const report = { index, player: null };
  shown = report;
  const data = element(`timeline-${index}`);
  const timeline = data ? await decodeTimeline(data.textContent) : null;
  if (shown !== report) return;
  if (timeline) {
    report.player = new Player(timeline, (count) => {
      history.replaceState(null, "", `#${index}${count === timeline.frames.length ? "" : `@${count}`}`);
    });
    if (write !== undefined) report.player.show(write);
  }
  const tags = of.tags.map((tag) => `@${tag}`).join(" ");
  element("case").replaceChildren(
    make("h2", { id: "case-title", tabindex: "-1", text: of.name }),
    make("p", {}, make("strong", { text: `${SYMBOLS[of.outcome]} ${of.outcome}` }),
      ` · ${of.feature}${of.rule ? ` · ${of.rule}` : ""} · ${of.file}:${of.line} · ${timeText(of.virtual_millis)}${tags ? ` · ${tags}` : ""}`),
    ...(of.skipped ? [make("p", { text: `Skipped: ${of.skipped}` })] : []),
    ...drawFailure(of, timeline).filter(Boolean),
    make("h3", { text: "Steps" }),
    make("ol", { class: "steps" }, ...of.steps.map((step, i) => drawStep(step, i, report))),
    make("h3", { text: "Run it again" }),
    make("pre", { tabindex: "0", text: reproduceLine(of) }),
    ...(report.player ? [make("h3", { text: "The cluster" }), report.player.element]
      : [make("p", { text: "The run recorded no writes for this scenario." })]));
};

const readHash = () => {
  const match = /^#(\d+)(?:@(\d+))?$/.exec(location.hash);
  if (match) showCase(Number(match[1]), match[2] === undefined ? undefined : Number(match[2]));
};

for (const id of ["status", "area", "tag"]) element(id).addEventListener("change", filterCases);
element("text").addEventListener("input", filterCases);
element("list").addEventListener("click", async (event) => {
  const item = event.target.closest("li[data-case]");
  if (!item || !event.target.closest("button")) return;
  history.pushState(null, "", `#${item.dataset.case}`);
  await showCase(Number(item.dataset.case));
  element("case-title").focus();
  element("case").scrollIntoView({ block: "start" });
});
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input:not([type=range]), select, textarea");
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    event.preventDefault();
    element("text").focus();
  } else if (shown && shown.player && event.key === "n") {
    shown.player.show(shown.player.count + 1);
  } else if (shown && shown.player && event.key === "p") {
    shown.player.show(shown.player.count - 1);
  }
});
addEventListener("hashchange", readHash);
filterCases();
readHash();
