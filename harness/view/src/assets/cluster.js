"use strict";
// Reads the timeline of a scenario and draws the cluster after any of its writes. The state after
// a write is the sum of the changes of all frames up to it; copies are kept at intervals.

const COPY_INTERVAL = 256;
const COLOURS = 10;
const PENDING_MAX = 200;
const EVENTS_MAX = 300;
const GROUP_FROM = 200;

// Makes an element. Attributes with the value null are left out; `text` is its text.
const make = (tag, attributes, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
};

// Decompresses an encoded timeline.
const decodeTimeline = async (base64) => {
  const binary = atob(base64);
  const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Timeline(await new Response(stream).json());
};

class ClusterState {
  constructor(nodes = new Map(), queues = new Map(), pending = new Map(), order = []) {
    Object.assign(this, { nodes, queues, pending, order });
  }

  copy() {
    return new ClusterState(new Map(this.nodes), new Map(this.queues), new Map(this.pending), this.order);
  }

  apply(frame) {
    const merge = (rows, changes) => {
      for (const [name, row] of Object.entries(changes || {})) {
        if (row === null) rows.delete(name);
        else rows.set(name, row);
      }
    };
    merge(this.nodes, frame.n);
    merge(this.queues, frame.q);
    merge(this.pending, frame.p);
    if (frame.o) this.order = frame.o;
  }
}

class Timeline {
  constructor({ frames, steps }) {
    this.frames = frames;
    this.steps = steps;
    this.copies = [new ClusterState()];
  }

  // The state after the first `count` writes.
  stateAt(count) {
    while (this.copies.length <= Math.floor(count / COPY_INTERVAL)) {
      const begin = (this.copies.length - 1) * COPY_INTERVAL;
      this.copies.push(this.fold(this.copies[this.copies.length - 1], begin, begin + COPY_INTERVAL));
    }
    const index = Math.floor(count / COPY_INTERVAL);
    return this.fold(this.copies[index], index * COPY_INTERVAL, count);
  }

  fold(state, begin, end) {
    const next = state.copy();
    for (let i = begin; i < end && i < this.frames.length; i++) next.apply(this.frames[i]);
    return next;
  }

  // Number of writes up to a time.
  countAt(millis) {
    let count = 0;
    while (count < this.frames.length && this.frames[count].t <= millis) count++;
    return count;
  }

  // GPUs in use after each write at which the number changed: [milliseconds, used, all].
  use() {
    const nodes = new Map();
    const points = [];
    let used = 0;
    let all = 0;
    for (const frame of this.frames) {
      for (const [name, row] of Object.entries(frame.n || {})) {
        const [oldUsed, oldAll] = nodes.get(name) || [0, 0];
        const now = row === null ? [0, 0] : [row[2].filter((users) => users.length).length, row[2].length];
        nodes.set(name, now);
        used += now[0] - oldUsed;
        all += now[1] - oldAll;
      }
      const last = points[points.length - 1];
      if (!last || last[1] !== used || last[2] !== all) points.push([frame.t, used, all]);
    }
    return points;
  }
}

const gpusText = (milli) => String(milli / 1000);

// Milliseconds as the features write times, such as 1h05m or 34.5s.
const timeText = (millis) => {
  const seconds = Math.abs(millis) / 1000;
  const sign = millis < 0 ? "-" : "";
  if (seconds < 60) return `${sign}${Math.round(seconds * 100) / 100} s`;
  const whole = Math.floor(seconds);
  const two = (number) => String(number).padStart(2, "0");
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return h ? `${sign}${h}:${two(m)}:${two(s)} h` : `${sign}${m}:${two(s)} min`;
};

const letterOf = (position) => (position < 0 ? "?" : String.fromCharCode(65 + (position % 26)));
const colourOf = (position) => (position < 0 ? "qx" : `q${position % COLOURS}`);

const svgElement = (tag, attributes, text) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text) node.textContent = text;
  return node;
};

// The part of a GPU that a pod uses, in thousandths; 0 is unknown.
const portionOf = (user) => (user.length > 3 ? user[3] : 1000);

// The pods that share a GPU as stripes, whose widths are their parts.
const drawShares = (users, state) => {
  const portions = users.map(portionOf);
  const isKnown = portions.every((portion) => portion > 0) && portions.reduce((a, b) => a + b, 0) <= 1000;
  const svg = svgElement("svg", { viewBox: "0 0 1000 500", "aria-hidden": "true" });
  let x = 0;
  users.forEach(([, queue], i) => {
    const width = isKnown ? portions[i] : Math.floor(1000 / users.length);
    const position = state.order.indexOf(queue);
    svg.append(svgElement("rect", { class: colourOf(position), x, width, height: 500 }));
    if (width >= 240) svg.append(svgElement("text", { x: x + width / 2, y: 370, "text-anchor": "middle" }, letterOf(position)));
    x += width;
  });
  return svg;
};

const drawCell = (users, what, state) => {
  if (!users.length) {
    const label = `${what}: free`;
    return make("span", { class: "gpu", role: "img", "aria-label": label, title: label });
  }
  const [, queue, isLeaving] = users[0];
  const position = state.order.indexOf(queue);
  const part = (user) => {
    const portion = portionOf(user);
    return portion > 0 && portion < 1000 ? ` (${gpusText(portion)} of the GPU)` : "";
  };
  const of = (user) => (users.length > 1 && user[1] ? ` of ${user[1]}` : "");
  const pods = users.map((user) => `${user[0]}${of(user)}${part(user)}`).join(" ");
  const ofQueue = users.length === 1 && queue ? ` of queue ${queue}` : "";
  const label = `${what}: ${pods}${ofQueue}${isLeaving ? ", leaving" : ""}`;
  const isShared = users.length > 1 || portionOf(users[0]) !== 1000;
  return make("span", {
    class: `gpu ${isShared ? "shared" : colourOf(position)}${isLeaving ? " leaving" : ""}`,
    role: "img",
    "aria-label": label,
    title: label,
    text: isShared ? null : letterOf(position),
  }, isShared ? drawShares(users, state) : null);
};

// The MIG slices and DRA devices of a node, a line for each profile or driver.
const drawParts = (parts, state) => {
  const groups = new Map();
  for (const part of parts || []) {
    if (!groups.has(part[0])) groups.set(part[0], []);
    groups.get(part[0]).push(part);
  }
  return [...groups].map(([group, of]) => {
    const used = of.filter((part) => part[2].length).length;
    return make("div", { class: "gpus parts", role: "group", "aria-label": `${used} of ${of.length} in use of ${group}` },
      make("span", { class: "count", text: group }),
      ...of.map(([, name, users]) => drawCell(users, `${group} ${name}`, state)));
  });
};

const drawNode = (names, row, state, isChanged) => {
  const [problem, otherPods, gpus, parts] = row;
  const used = gpus.filter((users) => users.length).length;
  const others = names.length - 1;
  return make(
    "div",
    { class: `node${problem ? " problem" : ""}${isChanged ? " changed" : ""}` },
    make(
      "div",
      {},
      make("span", { class: "name", text: names[0] }),
      make("span", { class: "count", text: `${used}/${gpus.length} GPUs` }),
      problem ? make("span", { class: "badge", text: problem }) : null,
      otherPods ? make("span", { class: "badge", text: `+${otherPods} pods` }) : null,
      isChanged ? make("span", { class: "badge", text: "changed" }) : null,
    ),
    make("div", { class: "gpus", role: "group", "aria-label": `GPUs of ${names[0]}` },
      ...gpus.map((users, index) => drawCell(users, `GPU ${index}`, state))),
    ...drawParts(parts, state),
    others ? make("p", { class: "note", text: `and ${others} like it` }) : null,
  );
};

// Draws the nodes. With many nodes, those that look the same share a box. `changed` has the names
// of nodes to mark.
const drawNodes = (state, changed = new Set()) => {
  const names = [...state.nodes.keys()].sort();
  const groups = new Map();
  for (const name of names) {
    const [problem, otherPods, gpus, parts] = state.nodes.get(name);
    const look = names.length < GROUP_FROM || changed.has(name)
      ? name
      : JSON.stringify([problem, otherPods, parts, gpus.map((users) => [users.length, users[0]?.[1], users[0]?.[2]])]);
    if (groups.has(look)) groups.get(look).push(name);
    else groups.set(look, [name]);
  }
  const boxes = [...groups.values()].map((group) =>
    drawNode(group, state.nodes.get(group[0]), state, changed.has(group[0])));
  return make("div", { class: "nodes" }, ...(boxes.length ? boxes : [make("p", { text: "There are no nodes." })]));
};

const drawTable = (label, heads, rows) =>
  make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label },
    make("table", {},
      make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col", text: head })))),
      make("tbody", {}, ...rows)));

const drawQueues = (state) => {
  if (!state.order.length) return make("p", { text: "There are no queues." });
  const rows = state.order.map((name, position) => {
    const row = state.queues.get(name);
    const over = row.q === null ? 0 : Math.max(0, row.u - row.q);
    const cells = [
      row.q === null ? "∞" : gpusText(row.q),
      row.f === null ? "" : gpusText(row.f),
      gpusText(row.u),
      over ? gpusText(over) : "",
      row.p ? gpusText(row.p) : "",
      row.l === null ? "" : gpusText(row.l),
    ];
    return make("tr", {},
      make("th", { scope: "row" },
        make("span", { class: `indent d${Math.min(row.d, 6)}` }),
        make("i", { class: `gpu ${colourOf(position)}`, "aria-hidden": "true", text: letterOf(position) }),
        ` ${name}`),
      ...cells.map((text) => make("td", { text })));
  });
  const heads = ["Queue", "Quota", "Fair share", "In use", "Over quota", "Pending", "Limit"];
  return drawTable("Queues", heads, rows);
};

const drawPending = (state) => {
  if (!state.pending.size) return make("p", { text: "No pods are pending." });
  const keys = [...state.pending.keys()].sort();
  const rows = keys.slice(0, PENDING_MAX).map((key) => {
    const row = state.pending.get(key);
    const namespace = key.split("/")[0];
    return make("tr", {},
      make("th", { scope: "row", text: `${namespace}/${row.t}` }),
      make("td", { text: row.q }),
      make("td", { text: row.r ? `${row.n} (${row.r} run)` : row.n }),
      make("td", { text: gpusText(row.g) }),
      make("td", { class: "reason", text: row.w || "not reported yet" }));
  });
  const table = drawTable("Pending", ["Workload", "Queue", "Pods", "GPUs", "Reason"], rows);
  const more = keys.length - PENDING_MAX;
  return make("div", {}, table, more > 0 ? make("p", { text: `${more} more workloads are pending.` }) : null);
};

// The use of GPUs over time as a line, with a mark at the shown time.
const drawUse = (timeline) => {
  const points = timeline.use();
  const end = Math.max(1, timeline.frames.length ? timeline.frames[timeline.frames.length - 1].t : 1);
  const most = Math.max(1, ...points.map((point) => point[2]));
  const x = (millis) => (Math.max(0, millis) / end) * 1000;
  const y = (gpus) => 58 - (gpus / most) * 54;
  const svg = (tag, attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const line = (column) => {
    const path = points.map((point, i) => {
      const before = i ? `H${x(point[0]).toFixed(1)}` : `M${x(point[0]).toFixed(1)} ${y(point[column]).toFixed(1)}`;
      return `${before}V${y(point[column]).toFixed(1)}`;
    });
    return points.length ? `${path.join("")}H1000` : "";
  };
  const last = points[points.length - 1] || [0, 0, 0];
  const plot = svg("svg", {
    class: "use", viewBox: "0 0 1000 60", preserveAspectRatio: "none", role: "img",
    "aria-label": `GPUs in use over ${timeText(end)}: ${last[1]} of ${last[2]} at the end`,
  });
  plot.append(svg("path", { class: "all", d: line(2) }), svg("path", { class: "used", d: line(1) }));
  for (const frame of timeline.frames) {
    if ((frame.e || []).some((event) => event[0] === "eviction")) {
      plot.append(svg("path", { class: "evictions", d: `M${x(frame.t).toFixed(1)} 0V6` }));
    }
  }
  const mark = svg("path", { class: "mark", d: "M0 0V60" });
  plot.append(mark);
  return { plot, show: (millis) => mark.setAttribute("d", `M${x(millis).toFixed(1)} 0V60`) };
};
