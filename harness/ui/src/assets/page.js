"use strict";
// The page asks the server for HTML and shows it. All state is in the server, except which
// revision is shown, none while the page follows the cluster, and which nodes have boxes.

const element = (id) => document.getElementById(id);
let shownRevision = null;
let chosenBlock = 0;
let shownEvents = null;
let details = null;
let isLoading = false;
let isStale = false;

const say = (text, isError) => {
  const message = element("message");
  message.textContent = text;
  message.className = isError ? "error" : "";
};

const fetchText = async (path) => {
  const response = await fetch(path, { credentials: "same-origin" });
  const text = await response.text();
  if (!response.ok) throw new Error(text || response.statusText);
  return text;
};

const send = async (path, fields) => {
  const response = await fetch(path, {
    method: "POST",
    credentials: "same-origin",
    headers: { "x-schedlab-ui": "1" },
    body: new URLSearchParams(fields),
  });
  const text = await response.text();
  say(text, !response.ok);
  return response.ok;
};

// Replaces the parts of the view that the server sent: those that differ, or the whole view.
const showParts = (html) => {
  const template = document.createElement("template");
  template.innerHTML = html;
  for (const part of [...template.content.children]) {
    const old = element(part.id);
    // The focus stays on the object that had it.
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const { details: object, block } = focused?.dataset || {};
    old.replaceWith(part);
    if (object) part.querySelector(`[data-details="${CSS.escape(object)}"]`)?.focus();
    else if (block) part.querySelector(`[data-block="${block}"]`)?.focus();
    else if (focused?.id) element(focused.id)?.focus();
  }
};

// Shows what the clock part says in the controls of time.
const syncControls = () => {
  const clock = document.querySelector(".clock").dataset;
  const slider = element("revision");
  slider.max = clock.latest;
  slider.value = clock.revision;
  const play = element("play");
  if (!play) return;
  play.setAttribute("aria-pressed", String(clock.speed !== "0"));
  play.textContent = clock.speed === "0" ? "Play" : "Pause";
  if (clock.speed !== "0") element("speed").value = clock.speed;
};

// Loads the view and the events. Requests during a load are merged into one that follows.
const refresh = async () => {
  if (isLoading) {
    isStale = true;
    return;
  }
  isLoading = true;
  try {
    do {
      isStale = false;
      const at = shownRevision === null ? {} : { revision: shownRevision };
      const shown = [...document.querySelectorAll("[data-hash]")];
      const view = new URLSearchParams({
        ...at,
        block: chosenBlock,
        find: element("find")?.value || "",
        shown: shown.map((part) => `${part.id}:${part.dataset.hash}`).join(),
      });
      const filter = new URLSearchParams({
        ...at,
        kind: element("event-kind").value,
        text: element("event-text").value,
      });
      const [parts, events] = await Promise.all([fetchText(`view?${view}`), fetchText(`events?${filter}`)]);
      showParts(parts);
      if (events !== shownEvents) element("events").innerHTML = events;
      shownEvents = events;
      syncControls();
    } while (isStale);
  } catch (error) {
    say(error.message, true);
  } finally {
    isLoading = false;
  }
};

const showDetails = async (object) => {
  details = object;
  try {
    element("details").innerHTML = await fetchText(`details/${object}`);
    element("details").scrollIntoView({ block: "nearest" });
  } catch (error) {
    say(error.message, true);
  }
};

const showRevision = (revision) => {
  shownRevision = revision;
  refresh();
};

document.addEventListener("click", async (event) => {
  const target = event.target.closest("[data-details],[data-revision],[data-advance],[data-block]");
  if (!target || target.tagName === "P") return;
  if (target.dataset.block) {
    chosenBlock = Number(target.dataset.block);
    element("find").value = "";
    await refresh();
  } else if (target.dataset.details) {
    await showDetails(target.dataset.details);
  } else if (target.dataset.revision) {
    showRevision(Number(target.dataset.revision));
  } else {
    shownRevision = null;
    target.disabled = true;
    await send("advance", { by: target.dataset.advance });
    target.disabled = false;
    await refresh();
    if (details) await showDetails(details);
  }
});

const setPlaying = async (isPlaying) => {
  if (isPlaying) shownRevision = null;
  await send("play", { speed: isPlaying ? element("speed").value : "0" });
  await refresh();
};
const isPlaying = () => Boolean(element("play")) && element("play").getAttribute("aria-pressed") === "true";

if (element("play")) {
  element("play").addEventListener("click", () => setPlaying(!isPlaying()));
  element("speed").addEventListener("change", () => {
    if (isPlaying()) setPlaying(true);
  });
}
element("now").addEventListener("click", () => showRevision(null));
element("revision").addEventListener("input", (event) => {
  if (isPlaying()) setPlaying(false);
  showRevision(Number(event.target.value));
});
document.addEventListener("input", (event) => {
  if (event.target.id === "find") refresh();
});
element("event-kind").addEventListener("change", refresh);
element("event-text").addEventListener("input", refresh);

for (const id of ["submit", "quota", "node", "yaml"]) {
  element(id).addEventListener("submit", async (event) => {
    event.preventDefault();
    shownRevision = null;
    if (await send(id, new FormData(event.target))) await refresh();
  });
}

// Arrow keys go from the name of a node to its GPUs, and from GPU to GPU.
document.addEventListener("keydown", (event) => {
  const node = event.target.closest(".node");
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!node || !step) return;
  const stops = [node.querySelector(".name"), ...node.querySelectorAll("button.gpu")];
  const next = stops[stops.indexOf(event.target) + step];
  if (next) {
    event.preventDefault();
    next.focus();
  }
});

const changes = new EventSource("changes");
changes.addEventListener("message", () => {
  if (shownRevision === null) refresh();
});
let isCutOff = false;
changes.addEventListener("error", () => {
  isCutOff = true;
  say("The server does not answer; it may have ended.", true);
});
changes.addEventListener("open", () => {
  if (isCutOff) location.reload();
});
refresh();
