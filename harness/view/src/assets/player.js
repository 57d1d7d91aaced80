// Shows the timeline of a scenario with a slider over its writes.

// The next write from `from` in a direction that has an event of a kind; `from` if there is none.
const nextWith = (timeline, from, direction, kind) => {
  for (let i = from - 1 + direction; i >= 0 && i < timeline.frames.length; i += direction) {
    if ((timeline.frames[i].e || []).some((event) => event[0] === kind)) return i + 1;
  }
  return from;
};

class Player {
  // `onShow` is called with the number of writes that are shown.
  constructor(timeline, onShow = () => {}) {
    this.timeline = timeline;
    this.onShow = onShow;
    this.kind = "";
    this.count = timeline.frames.length;
    this.use = drawUse(timeline);
    this.slider = make("input", {
      type: "range", min: "0", max: String(timeline.frames.length), value: String(this.count),
      "aria-label": "Write of the scenario", oninput: (event) => this.show(Number(event.target.value)),
    });
    this.clock = make("p", { class: "clock", role: "status" });
    this.body = make("div", {});
    this.events = make("ol", { class: "events", tabindex: "0", "aria-label": "Events up to this write" });
    this.element = make("div", { class: "player" },
      this.toolbar(), this.use.plot, this.slider, this.clock, this.body,
      make("h3", { text: "Events" }), this.filter(), this.events);
    this.show(this.count);
  }

  toolbar() {
    const button = (text, go) => make("button", { type: "button", text, onclick: go });
    const eviction = (direction) => () => this.show(nextWith(this.timeline, this.count, direction, "eviction"));
    return make("div", { class: "time", role: "toolbar", "aria-label": "Time" },
      button("Start", () => this.show(0)),
      button("◀ Write", () => this.show(this.count - 1)),
      button("Write ▶", () => this.show(this.count + 1)),
      button("◀ Eviction", eviction(-1)),
      button("Eviction ▶", eviction(1)),
      button("End", () => this.show(this.timeline.frames.length)));
  }

  filter() {
    const kinds = [["", "all events"], ["eviction", "evictions"], ["binding", "bindings"], ["pending", "pending reasons"]];
    const select = make("select", { onchange: (event) => { this.kind = event.target.value; this.drawEvents(); } },
      ...kinds.map(([value, text]) => make("option", { value, text })));
    return make("label", {}, "Show ", select);
  }

  show(count) {
    this.count = Math.max(0, Math.min(this.timeline.frames.length, count));
    const frame = this.timeline.frames[this.count - 1];
    const millis = frame ? frame.t : 0;
    this.slider.value = String(this.count);
    this.slider.setAttribute("aria-valuetext", `write ${this.count}, ${timeText(millis)}`);
    this.use.show(millis);
    this.clock.replaceChildren(
      make("strong", { text: timeText(millis) }),
      ` · write ${this.count} of ${this.timeline.frames.length}`,
      frame ? ` · revision ${frame.r}: ${frame.w}` : " · before the first write");
    const state = this.timeline.stateAt(this.count);
    const changed = new Set(Object.keys((frame && frame.n) || {}));
    this.body.replaceChildren(
      make("h3", { text: "Nodes" }), drawNodes(state, changed),
      make("h3", { text: "Queues" }), drawQueues(state),
      make("h3", { text: "Pending" }), drawPending(state));
    this.drawEvents();
    this.onShow(this.count);
  }

  drawEvents() {
    const items = [];
    for (let i = this.count - 1; i >= 0 && items.length < EVENTS_MAX; i--) {
      const frame = this.timeline.frames[i];
      for (const [kind, object, name, text] of frame.e || []) {
        if (this.kind && kind !== this.kind) continue;
        items.push(make("li", { class: kind },
          make("button", { type: "button", text: timeText(frame.t), onclick: () => this.show(i + 1) }),
          ` ${object} `, make("b", { text: name }), `: ${text}`));
      }
    }
    this.events.replaceChildren(...(items.length ? items : [make("li", { text: "Nothing yet." })]));
  }
}
