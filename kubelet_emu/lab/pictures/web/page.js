"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const state = { t: 0, moment: -1, pod: 0, from: 0, to: data.end, playing: false, tab: "status", query: "", off: new Set(["quiet"]) };
const colours = {};
const clock = (t) => `${t.toFixed(3)} s`;
const esc = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" }[c]));
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
const pod = () => data.pods[state.pod];

/* -- snapshots: folded from what changed, with a whole one now and then -- */
const KEY = 64;
function fold(one) {
  one.frames = [];
  let current = {};
  one.deltas.forEach((delta, index) => {
    current = apply(current, delta);
    if (index % KEY === 0) one.frames.push(current);
  });
}
function apply(before, delta) {
  const after = { ...before, ...delta.set };
  after.conditions = { ...before.conditions, ...delta.conditions };
  after.containers = { ...before.containers, ...delta.containers };
  for (const key of delta.gone || []) delete after[key];
  return after;
}
function lastIndex(list, t, time) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (time(list[middle]) <= t + 1e-9) low = middle + 1; else high = middle;
  }
  return low - 1;
}
function snapshot(one, index) {
  if (index < 0) return null;
  let current = one.frames[Math.floor(index / KEY)];
  for (let i = Math.floor(index / KEY) * KEY + 1; i <= index; i++) current = apply(current, one.deltas[i]);
  return current;
}

/* -- the timeline -- */
const canvas = $("lanes");
let labels = 180, width = 0;
const x = (t) => labels + ((t - state.from) / (state.to - state.from)) * (width - labels - 8);
const timeAt = (px) => state.from + ((px - labels) / (width - labels - 8)) * (state.to - state.from);
const laneHeight = (lane) => ({ container: 26, condition: 15, writes: 15 }[lane.kind] || 20);
function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of data.colours) colours[name] = style.getPropertyValue(`--${name}`).trim();
}
function draw() {
  width = $("timeline").clientWidth;
  labels = width < 640 ? 96 : 190;
  const lanes = pod().lanes, height = 24 + lanes.reduce((sum, lane) => sum + laneHeight(lane), 0);
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio; canvas.height = height * ratio; canvas.style.height = `${height}px`;
  const g = canvas.getContext("2d");
  g.scale(ratio, ratio);
  g.fillStyle = colours.bg; g.fillRect(0, 0, width, height);
  g.font = '11px system-ui, "DejaVu Sans", sans-serif'; g.textBaseline = "middle";
  drawAxis(g, height);
  let y = 24;
  lanes.forEach((lane, index) => {
    const h = laneHeight(lane);
    if (index % 2 === 0) { g.globalAlpha = 0.6; g.fillStyle = colours.band; g.fillRect(0, y, width, h); g.globalAlpha = 1; }
    g.fillStyle = colours.text;
    g.fillText(cut(g, lane.name, labels - (lane.note && labels > 120 ? 66 : 8)), 4, y + h / 2);
    if (lane.note && labels > 120) { g.fillStyle = colours.soft; g.textAlign = "right"; g.fillText(lane.note, labels - 8, y + h / 2); g.textAlign = "left"; }
    g.save(); g.beginPath(); g.rect(labels, y, width - labels, h); g.clip();
    drawLane(g, lane, y, h);
    g.restore();
    y += h;
  });
  moveCursor();
}
function cut(g, text, room) {
  while (text.length > 4 && g.measureText(text).width > room) text = text.slice(0, -2) + "…";
  return text;
}
function drawAxis(g, height) {
  const span = state.to - state.from;
  const step = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200].find((one) => span / one <= (width < 640 ? 5 : 12)) || span;
  for (let n = Math.ceil(state.from / step - 1e-9); n * step <= state.to + 1e-9; n++) {
    const px = x(n * step);
    g.strokeStyle = colours.grid; g.beginPath(); g.moveTo(px, 18); g.lineTo(px, height); g.stroke();
    g.fillStyle = colours.soft; g.textAlign = "center";
    g.fillText(step >= 60 ? `${Math.round(n * step / 60)}m` : `${+(n * step).toFixed(2)}s`, Math.min(px, width - 14), 9); g.textAlign = "left";
  }
}
function drawLane(g, lane, y, h) {
  const thick = lane.kind === "condition" ? 5 : lane.kind === "container" ? 13 : 12, top = y + (lane.kind === "container" ? 3 : (h - thick) / 2);
  let lastPx = -9;
  for (const [start, end, look, text] of lane.bars) {
    if (end < state.from || start > state.to) continue;
    const a = Math.max(x(start), labels), b = Math.min(x(end), width), w = Math.max(b - a, 1);
    if (b - lastPx < 0.5 && w <= 1) continue;
    lastPx = b;
    g.fillStyle = look === "hatch" ? hatch(g) : colours[look] || colours.off;
    g.fillRect(a, top, w, thick);
    if (text && g.measureText(text).width + 8 < w) {
      g.fillStyle = look === "hatch" || look === "made" || look === "off" ? colours.text : colours.ink;
      if (look === "hatch") { g.strokeStyle = colours.bg; g.lineWidth = 4; g.strokeText(text, a + 22, top + thick / 2); g.lineWidth = 1; }
      g.fillText(text, a + (look === "hatch" ? 22 : 4), top + thick / 2 + 0.5);
    }
  }
  g.fillStyle = colours.ok;
  for (const [start, end] of lane.thin) if (end >= state.from && start <= state.to) g.fillRect(x(start), top + thick + 1, Math.max(x(end) - x(start), 1), 2);
  let seen = "";
  for (const [t, shape, look, text] of lane.dots) {
    if (t < state.from || t > state.to) continue;
    const px = x(t), key = `${shape}${look}${Math.round(px)}`;
    if (key === seen) continue;
    seen = key;
    const colour = { tick: colours.soft, kill: colours.bad, tbad: colours.bad, tok: colours.ok }[look] || colours[look];
    g.fillStyle = g.strokeStyle = colour;
    if (shape === "code" && !room(g, lane, px, text)) { if (look === "tbad") g.fillRect(px - 1, top, 2, thick); }
    else if (shape === "code") { g.strokeStyle = colours.bg; g.lineWidth = 3; g.strokeText(text, px + 2, top + thick / 2); g.lineWidth = 1; g.fillText(text, px + 2, top + thick / 2); }
    else if (shape === "flag") { g.beginPath(); g.moveTo(px, top); g.lineTo(px + 8, top + 4); g.lineTo(px, top + 8); g.fill(); g.fillRect(px, top, 1, thick); flagged(g, lane, px, text, y + h / 2); }
    else if (shape === "kill") g.fillRect(px - 1, top - 2, 2, thick + 4);
    else if (shape === "tick") g.fillRect(px, top + 1, 1, thick - 2);
    else { g.beginPath(); g.arc(px, lane.kind === "container" ? top + thick + 6 : y + h / 2, 1.8, 0, 7); g.fill(); }
  }
}
/* What a flag stands for, as much of it as fits before the next one. */
function flagged(g, lane, px, text, middle) {
  const next = lane.dots[lastIndex(lane.dots, timeAt(px + 0.5), (dot) => dot[0]) + 1];
  const space = (next ? x(next[0]) : width) - px - 14;
  if (!text || space < 36) return;
  g.fillStyle = colours.soft; g.fillText(cut(g, text, space), px + 11, middle);
}
/* Whether an exit code fits between its bar and the next thing that starts in this lane. */
function room(g, lane, px, text) {
  const next = lane.bars[lastIndex(lane.bars, timeAt(px + 0.5), (bar) => bar[0]) + 1];
  const end = px + 3 + g.measureText(text).width;
  return end <= width && (!next || next[2] === "hatch" || x(next[0]) >= end);
}
let hatched = null;
function hatch(g) {
  if (hatched && hatched.colour === colours.wait) return hatched.pattern;
  const tile = document.createElement("canvas"); tile.width = tile.height = 6;
  const c = tile.getContext("2d"); c.strokeStyle = colours.wait; c.lineWidth = 1.4;
  c.beginPath(); c.moveTo(-1, 7); c.lineTo(7, -1); c.stroke();
  hatched = { colour: colours.wait, pattern: g.createPattern(tile, "repeat") };
  return hatched.pattern;
}
function moveCursor() {
  const px = x(state.t), cursor = $("cursor");
  cursor.style.display = px >= labels - 1 && px <= width ? "block" : "none";
  cursor.style.left = `${px - 1}px`;
}
function at(event) {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}
function hit(px, py) {
  let y = 24;
  for (const lane of pod().lanes) {
    const h = laneHeight(lane);
    if (py >= y && py < y + h) {
      const near = lane.dots.filter((dot) => Math.abs(x(dot[0]) - px) < 4).pop();
      if (near) return near[4];
      const t = timeAt(px), slack = (state.to - state.from) / width;
      const bar = lane.bars.filter((one) => one[0] - slack <= t && one[1] + slack >= t).pop();
      return bar ? bar[4] : "";
    }
    y += h;
  }
  return "";
}
let dragging = false;
canvas.addEventListener("pointerdown", (event) => { dragging = true; canvas.setPointerCapture(event.pointerId); seek(timeAt(at(event)[0])); });
canvas.addEventListener("pointerup", () => { dragging = false; });
canvas.addEventListener("pointermove", (event) => {
  const [px, py] = at(event), tip = $("tip");
  if (dragging) seek(timeAt(px));
  const text = px > labels ? hit(px, py) : "";
  tip.hidden = !text; tip.textContent = text;
  tip.style.left = `${clamp(px + 12, 0, Math.max(width - 240, 0))}px`; tip.style.top = `${py + 14}px`;
});
canvas.addEventListener("pointerleave", () => { $("tip").hidden = true; });
canvas.addEventListener("wheel", (event) => {
  if (!event.ctrlKey && !event.metaKey && Math.abs(event.deltaY) < Math.abs(event.deltaX)) { pan(event.deltaX); event.preventDefault(); return; }
  if (!event.ctrlKey && !event.shiftKey) return;
  event.preventDefault(); zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(at(event)[0]));
}, { passive: false });
function zoom(factor, around = state.t) {
  const span = clamp((state.to - state.from) * factor, Math.min(0.05, data.end), data.end);
  const part = (around - state.from) / (state.to - state.from);
  state.from = clamp(around - part * span, 0, data.end - span); state.to = state.from + span;
  draw(); link();
}
function pan(px) {
  const span = state.to - state.from;
  state.from = clamp(state.from + (px / width) * span, 0, data.end - span); state.to = state.from + span;
  draw();
}

/* -- moments -- */
let shown = [], current = null, from = 0;
const ROWS = 240; /* rows in the page at once; the list may be much longer */
function list() {
  const words = state.query.toLowerCase().split(/\s+/).filter(Boolean), name = pod().name;
  shown = data.moments.filter((one) => (!one.pod || one.pod === name) && !state.off.has(one.quiet ? "quiet" : one.kind)
    && words.every((word) => one.text.includes(word)));
  $("count").textContent = `${shown.length} of ${data.moments.length}`;
  rows(0);
}
function rows(start) {
  from = clamp(start, 0, Math.max(shown.length - ROWS, 0));
  $("moments").innerHTML = shown.slice(from, from + ROWS).map((one) =>
    `<li class="${one.kind}" data-n="${one.number}"><time>${one.t.toFixed(2)}</time>${esc(one.title)}${one.surprises ? ' <span class="surprise" title="surprising">!</span>' : ""}</li>`).join("");
  current = null;
}
function mark() {
  const index = lastIndex(shown, state.t, (one) => one.t), box = $("moments");
  if (index >= 0 && (index < from || index >= from + ROWS)) rows(index - ROWS / 2);
  const item = index >= 0 ? box.children[index - from] : null;
  if (item !== current) {
    if (current) current.removeAttribute("aria-current");
    if (item) { item.setAttribute("aria-current", "true"); reveal(box, item); }
    current = item;
  }
  decision(index >= 0 ? shown[index] : null);
}
function reveal(box, item) {
  const top = item.offsetTop - box.offsetTop;
  if (top < box.scrollTop || top + item.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = top - box.clientHeight / 2;
}
$("moments").addEventListener("scroll", () => {
  const box = $("moments"), near = 60;
  const up = box.scrollTop < near && from > 0, down = box.scrollTop + box.clientHeight > box.scrollHeight - near && from + ROWS < shown.length;
  if (!up && !down) return;
  const kept = box.children[up ? 0 : box.children.length - 1].dataset.n;
  rows(from + (up ? -ROWS / 2 : ROWS / 2));
  const item = [...box.children].find((one) => one.dataset.n === kept);
  if (item) box.scrollTop = item.offsetTop - box.offsetTop - (up ? 0 : box.clientHeight - item.offsetHeight);
});
let told; // undefined: nothing is drawn yet
function decision(one) {
  if (one === told) return;
  told = one;
  const box = $("decision");
  if (!one) { box.innerHTML = '<p class="empty">Nothing has happened yet.</p>'; return; }
  const part = (name, values) => (values && values.length ? `<dt>${name}</dt><dd>${values.map(esc).join("<br>")}</dd>` : "");
  const rules = (one.rules || []).map(([rule, about]) => `<div class="rule"><b>${esc(rule)}${about ? ` (${esc(about)})` : ""}</b> <span>${esc(data.rules[rule] || "")}</span></div>`).join("");
  const surprises = (one.surprises || []).map((s) => `<div><span class="surprise">!</span> ${esc(s.text)} <span class="empty">${esc(s.rule)}</span></div>`).join("");
  box.innerHTML = `<h2>${clock(one.t)}${one.inferred ? " (inferred)" : ""}<br>${esc(one.title)}</h2><dl>${surprises ? `<dt>surprising</dt><dd>${surprises}</dd>` : ""}${part("saw", one.saw)}`
    + `${rules ? `<dt>rules</dt><dd>${rules}</dd>` : ""}${part("did", one.did)}${part("kept", one.kept)}${part("shows", one.shows)}${one.kubectl ? part("kubectl get pods", [one.kubectl]) : ""}</dl>`;
}
$("moments").addEventListener("click", (event) => { const item = event.target.closest("li"); if (item) go(+item.dataset.n); });
function go(number) { const one = data.moments[number - 1]; if (one) { seek(one.t); } }
function step(by) {
  let index = lastIndex(shown, state.t, (one) => one.t);
  if (by < 0) { while (index >= 0 && shown[index].t >= state.t - 1e-9) index--; } else { index++; }
  seek(index < 0 ? 0 : index < shown.length ? shown[index].t : data.end);
}

/* -- state at the cursor -- */
const tabs = { status: "pod status", runtime: "runtime", backoff: "back-off", worker: "worker, queue", devices: "devices, volumes" };
$("tabs").innerHTML = Object.entries(tabs).map(([id, name]) => `<button role="tab" id="tab-${id}" data-tab="${id}">${name}</button>`).join("");
$("tabs").addEventListener("click", (event) => { const button = event.target.closest("button"); if (button) choose(button.dataset.tab); });
function choose(tab) {
  state.tab = tab;
  for (const button of $("tabs").children) button.setAttribute("aria-selected", String(button.dataset.tab === tab));
  drawn = null; panel(); link();
}
let drawn = null;
function panel() {
  const one = pod(), index = lastIndex(one.deltas, state.t, (delta) => delta.t);
  const key = state.tab === "status" ? `s${state.pod}/${index}` : null;
  if (key !== null && key === drawn) return;
  const html = { status: () => statusPanel(one, index), runtime: runtimePanel, backoff: backoffPanel, worker: workerPanel, devices: devicesPanel }[state.tab](one, index);
  if (html !== drawn) $("panel").innerHTML = html;
  drawn = key !== null ? key : html;
}
const table = (head, rows) => (rows.length ? `<table><thead><tr>${head.map((h) => `<th>${h}</th>`).join("")}</tr></thead><tbody>${rows.map((row) => `<tr>${row.map((cell) => `<td>${esc(cell)}</td>`).join("")}</tr>`).join("")}</tbody></table>` : '<p class="empty">nothing</p>');
function statusPanel(one, index) {
  const now = snapshot(one, index);
  if (!now) return '<p class="empty">The pod does not exist yet.</p>';
  const delta = one.deltas[index], lines = [];
  const line = (text, changed) => lines.push(changed ? `<mark>${esc(text)}</mark>` : esc(text));
  if (now.deleted) line("# the object is gone", true);
  line("status:");
  for (const key of ["phase", "reason", "message", "observedGeneration", "qosClass"]) if (now[key]) line(`  ${key}: ${now[key]}`, key in delta.set);
  if (now.ip) line(`  podIP: ${now.ip}`, "ip" in delta.set);
  line("  conditions:");
  for (const [name, value] of Object.entries(now.conditions)) {
    const changed = name in (delta.conditions || {});
    line(`  - type: ${name}`, changed); line(`    status: "${value[0]}"`, changed);
    if (value[1]) line(`    reason: ${value[1]}`, changed);
    if (value[2]) line(`    message: ${value[2]}`, changed);
  }
  for (const [kind, title] of [["init", "initContainerStatuses"], ["regular", "containerStatuses"], ["ephemeral", "ephemeralContainerStatuses"]]) {
    const mine = Object.entries(now.containers).filter(([, shownOne]) => shownOne.kind === kind);
    if (mine.length) line(`  ${title}:`);
    for (const [name, c] of mine) {
      const changed = name in (delta.containers || {});
      line(`  - name: ${name}`, changed); line(`    restartCount: ${c.restartCount}`, changed); line(`    ready: ${c.ready}`, changed);
      if (c.started !== null && c.started !== undefined) line(`    started: ${c.started}`, changed);
      line(`    state: {${c.state}: {${ends(c)}}}`, changed);
      if (c.last) line(`    lastState: {terminated: {${ends(c.last)}}}`, changed);
    }
  }
  const when = `# as of ${clock(delta.t)}; what changed then is marked`;
  return `<pre>${esc(when)}\n${lines.join("\n")}</pre>`;
}
const ends = (c) => ["reason", "exitCode", "signal", "message"].filter((key) => c[key] !== undefined).map((key) => `${key}: ${c[key]}`).join(", ");
function runtimePanel(one) {
  const t = state.t;
  const boxes = one.sandboxes.filter((s) => s[1] <= t).map(([label, , ready, ended, ip]) => [label, ended !== null && ended <= t ? "NotReady" : ready !== null && ready <= t ? "Ready" : "creating", ip]);
  const rows = one.instances.filter((i) => i[2] <= t && (i[6] === null || i[6] > t)).map(([label, sandbox, created, started, ended, code, , reason]) => {
    const over = ended !== null && ended <= t;
    return [label, over ? "Exited" : started !== null && started <= t ? "Running" : "Created", over && code !== null ? code : "", over ? reason : "", sandbox];
  }).reverse();
  return `<h3>crictl pods</h3>${table(["SANDBOX", "STATE", "IP"], boxes)}<h3>crictl ps -a</h3>${table(["CONTAINER", "STATE", "EXIT", "REASON", "SANDBOX"], rows)}`;
}
function backoffPanel(one) {
  const t = state.t, rows = [];
  for (const name of Object.keys(one.kinds)) {
    const mine = one.backoffs.filter((b) => b[0] === name && b[1] <= t), last = mine[mine.length - 1];
    if (last) rows.push([name, last[3] || "?", last[2] === null || last[2] > t ? `waits since ${clock(last[1])}` : "passed", mine.length]);
  }
  return table(["CONTAINER", "DELAY", "NOW", "WAITS SO FAR"], rows);
}
function workerPanel(one) {
  const t = state.t, worker = one.workers[lastIndex(one.workers, t, (w) => w[0])], queue = one.queue[lastIndex(one.queue, t, (q) => q[0])];
  const rows = [];
  if (worker) rows.push(["pod worker", worker[1], `since ${clock(worker[0])}`]);
  if (queue) rows.push(["work queue", queue[1] > t ? `sync due in ${(queue[1] - t).toFixed(1)} s` : "due", queue[2]]);
  return rows.length ? table(["PART", "STATE", ""], rows) : '<p class="empty">The trace does not tell (recordings hold no decisions).</p>';
}
function devicesPanel(one) {
  const t = state.t;
  const held = one.instances.filter((i) => i[2] <= t && (i[6] === null || i[6] > t) && i[8].length).map((i) => [i[0], i[8].join(", ")]);
  for (const name of Object.keys(one.kinds)) {
    /* The assignment is the container's, not an instance's: it outlasts the time between two of them. */
    const last = one.instances.filter((i) => i[0].startsWith(`${name}#`) && i[2] <= t && i[8].length).pop();
    const gone = one.deltas.some((delta) => delta.t <= t && delta.set.deleted);
    if (last && !gone && !held.some((row) => row[0].startsWith(`${name}#`))) held.push([`${name} (no instance)`, last[8].join(", ")]);
  }
  const calls = one.devices.filter((d) => d[0] <= t).slice(-12).map((d) => [clock(d[0]).replace(" ", "\u00a0"), d[1]]);
  return `<h3>devices held</h3>${table(["CONTAINER", "DEVICES"], held)}<h3>calls of plugins</h3>${table(["AT", "CALL"], calls)}<h3>volumes</h3>${table(["NAME", "KIND"], one.volumes)}`;
}

/* -- time -- */
let wanted = false;
function seek(t, options = {}) {
  state.t = clamp(t, 0, data.end);
  if (!options.keep && (state.t < state.from || state.t > state.to)) {
    const span = state.to - state.from;
    state.from = clamp(state.t - span / 2, 0, data.end - span); state.to = state.from + span; draw();
  }
  if (!wanted) { wanted = true; requestAnimationFrame(paint); }
}
function paint() {
  wanted = false;
  $("clock").textContent = clock(state.t);
  $("scrub").value = state.t;
  $("scrub").setAttribute("aria-valuetext", clock(state.t));
  moveCursor(); mark(); panel(); link();
}
let linkTimer = 0;
function link() {
  clearTimeout(linkTimer);
  linkTimer = setTimeout(() => {
    const parts = [`t=${state.t.toFixed(3)}`];
    if (state.pod) parts.push(`pod=${encodeURIComponent(pod().name)}`);
    if (state.tab !== "status") parts.push(`tab=${state.tab}`);
    if (state.query) parts.push(`q=${encodeURIComponent(state.query)}`);
    if (state.to - state.from < data.end - 1e-6) parts.push(`from=${state.from.toFixed(3)}`, `to=${state.to.toFixed(3)}`);
    try { history.replaceState(null, "", `#${parts.join("&")}`); } catch { /* a page in a sandbox has no history */ }
  }, 150);
}
function follow() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const name = asked.get("pod"), index = data.pods.findIndex((one) => one.name === name);
  state.pod = index < 0 ? 0 : index; $("pod").value = String(state.pod);
  state.query = asked.get("q") || ""; $("search").value = state.query;
  const from = parseFloat(asked.get("from")), to = parseFloat(asked.get("to"));
  state.from = from >= 0 && to > from ? from : 0; state.to = from >= 0 && to > from ? Math.min(to, data.end) : data.end;
  const tab = asked.get("tab");
  list(); draw(); choose(tab in tabs ? tab : "status");
  const number = parseInt(asked.get("m"), 10), t = parseFloat(asked.get("t"));
  if (number >= 1) go(number); else seek(Number.isFinite(t) ? t : 0, { keep: true });
}
let before = 0;
function play(on) {
  state.playing = on;
  $("play").textContent = on ? "❚❚" : "▶"; $("play").setAttribute("aria-pressed", String(on)); $("play").setAttribute("aria-label", on ? "Pause" : "Play");
  if (!on) return;
  if (state.t >= data.end - 1e-6) seek(0);
  before = performance.now(); requestAnimationFrame(tick);
}
function tick(now) {
  if (!state.playing) return;
  const t = state.t + ((now - before) / 1000) * +$("speed").value;
  before = now; seek(t);
  if (t >= data.end) play(false); else requestAnimationFrame(tick);
}

/* -- controls -- */
$("title").textContent = document.title = data.title;
$("scrub").max = data.end;
$("scrub").addEventListener("input", () => seek(+$("scrub").value));
$("first").onclick = () => seek(0); $("last").onclick = () => seek(data.end);
$("back").onclick = () => step(-1); $("next").onclick = () => step(1);
$("play").onclick = () => play(!state.playing);
$("in").onclick = () => zoom(0.5); $("out").onclick = () => zoom(2);
$("fit").onclick = () => { state.from = 0; state.to = data.end; draw(); link(); };
$("search").addEventListener("input", () => { state.query = $("search").value; list(); told = undefined; mark(); link(); });
$("pod").innerHTML = data.pods.map((one, index) => `<option value="${index}">${esc(one.name)}</option>`).join("");
document.querySelector(".pod").hidden = data.pods.length < 2;
$("pod").addEventListener("change", () => { state.pod = +$("pod").value; list(); draw(); drawn = null; paint(); });
const kinds = [...new Set(data.moments.map((one) => (one.quiet ? "quiet" : one.kind)))].sort();
$("kinds").innerHTML = kinds.map((kind) => `<label><input type="checkbox" value="${kind}" ${state.off.has(kind) ? "" : "checked"}> ${kind}</label>`).join("");
$("kinds").addEventListener("change", (event) => { const box = event.target; if (box.checked) state.off.delete(box.value); else state.off.add(box.value); list(); mark(); });
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input[type=search],select,textarea");
  if (event.key === "Escape" && typing) { event.target.blur(); return; }
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const button = event.target.matches("button,summary,input[type=checkbox]");
  const keys = {
    " ": () => play(!state.playing), ArrowRight: () => (event.shiftKey ? seek(state.t + 1) : step(1)), ArrowLeft: () => (event.shiftKey ? seek(state.t - 1) : step(-1)),
    Home: () => seek(0), End: () => seek(data.end), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => $("fit").click(), "/": () => $("search").focus(),
  };
  if (!(event.key in keys) || (button && event.key === " ")) return;
  event.preventDefault(); keys[event.key]();
});
data.pods.forEach(fold);
for (const one of data.moments) one.text = [one.title, ...(one.saw || []), ...(one.did || []), ...(one.shows || []), ...(one.rules || []).map((rule) => rule[0]), ...(one.surprises || []).map((s) => s.text)].join(" ").toLowerCase();
readColours();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); draw(); });
new ResizeObserver(() => { if ($("timeline").clientWidth !== width) draw(); }).observe($("timeline"));
window.addEventListener("hashchange", follow);
follow();
document.documentElement.dataset.loaded = "true";
