"use strict";
// The page asks the server for HTML and shows it. All state is in the server, except which
// revision is shown: none while the page follows the cluster.

const element = (id) => document.getElementById(id);
let shownRevision = null;
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
      const at = shownRevision === null ? "" : `revision=${shownRevision}&`;
      const filter = new URLSearchParams({
        kind: element("event-kind").value,
        text: element("event-text").value,
      });
      const [view, events] = await Promise.all([
        fetchText(`view?${at}`),
        fetchText(`events?${at}${filter}`),
      ]);
      // The focus stays on the object that had it.
      const focused = element("view").contains(document.activeElement) && document.activeElement.dataset.details;
      element("view").innerHTML = view;
      if (focused) element("view").querySelector(`[data-details="${CSS.escape(focused)}"]`)?.focus();
      element("events").innerHTML = events;
      const clock = document.querySelector(".clock").dataset;
      const slider = element("revision");
      slider.max = clock.latest;
      slider.value = clock.revision;
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
  const target = event.target.closest("[data-details],[data-revision],[data-advance]");
  if (!target || target.tagName === "P") return;
  if (target.dataset.details) {
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
  const play = element("play");
  play.setAttribute("aria-pressed", String(isPlaying));
  play.textContent = isPlaying ? "Pause" : "Play";
  if (isPlaying) shownRevision = null;
  await send("play", { speed: isPlaying ? element("speed").value : "0" });
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
changes.addEventListener("error", () => say("The server does not answer; it may have ended.", true));
refresh();
