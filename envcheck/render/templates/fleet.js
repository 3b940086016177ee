"use strict";
const fleet = JSON.parse(document.getElementById("fleet").textContent);
const columns = fleet.columns, rows = fleet.rows;  // a row: [host, verdict, cause, message, ...]
const byId = (id) => document.getElementById(id);
const STEP = 200, SHOWN = ["Host", "Verdict", "Cause", "GPU", "Driver", "Frameworks"], NARROW = ["Host", "Verdict", "Cause"];
const FIELDS = ["words", "verdict", "cause", "group"];
let shown = STEP, sortBy = -1, falling = false, found = rows, chosen = SHOWN.map((name) => columns.indexOf(name));

function cell(tag, text, name) {
  const element = document.createElement(tag);
  element.textContent = text;  // never markup
  if (name) element.className = name;
  return element;
}
function choices(select, at, all) {
  select.append(new Option(all, ""));
  for (const value of [...new Set(rows.map((row) => row[at]))].sort()) select.append(new Option(value || "works", "=" + value));
}
function find() {
  const words = byId("words").value.toLowerCase().split(/\s+/).filter(Boolean);
  const verdict = byId("verdict").value.slice(1), cause = byId("cause").value;
  found = rows.filter((row) => (!byId("verdict").value || row[1] === verdict) && (!cause || row[2] === cause.slice(1)) &&
    words.every((word) => row.some((text) => text.toLowerCase().includes(word))));
  if (sortBy >= 0) {
    const compare = new Intl.Collator(undefined, {numeric: true}).compare;
    found = [...found].sort((one, other) => (falling ? -1 : 1) * compare(one[sortBy], other[sortBy]));
  }
  shown = STEP;
  draw();
  remember();
}
function details(row) {
  const element = cell("tr", "", "details"), inner = cell("td", ""), list = document.createElement("dl");
  columns.forEach((name, at) => { if (row[at]) list.append(cell("dt", name), cell("dd", row[at])); });
  inner.colSpan = chosen.length;
  inner.append(list);
  element.append(inner);
  return element;
}
const brief = (text) => text.replace(/ \((?:compute capability|open|proprietary)[^)]*\)/g, "").replace(", runs CUDA up to ", ", CUDA ");
function line(row) {
  const element = cell("tr", "", fleet.tones[row[1]] + " host");
  for (const at of chosen) {
    const one = cell("td", brief(row[at]), at === 1 ? "tone" : NARROW.includes(columns[at]) ? "" : "wide");
    one.title = row[at];
    element.append(one);
  }
  element.onclick = () => {  // one line a host; all of it on demand
    if (String(getSelection())) return;
    const next = element.nextElementSibling;
    if (next && next.className === "details") next.remove(); else element.after(details(row));
  };
  return element;
}
function drawHeads() {
  byId("table").style.setProperty("--wide", Math.max(1, chosen.filter((at) => !NARROW.includes(columns[at])).length));
  byId("heads").replaceChildren(...chosen.map((at) => {
    const head = cell("th", ""), button = cell("button", columns[at] + (sortBy === at ? (falling ? " ↓" : " ↑") : ""));
    button.type = "button";
    button.onclick = () => { falling = sortBy === at && !falling; sortBy = at; find(); };
    head.append(button);
    return head;
  }));
}
function draw() {
  const by = byId("group").value === "" ? -1 : Number(byId("group").value);
  const lines = document.createDocumentFragment();
  if (by >= 0) {
    const counted = new Map();
    for (const row of found) {
      if (!counted.has(row[by])) counted.set(row[by], []);
      counted.get(row[by]).push(row[0]);
    }
    for (const [value, hosts] of [...counted].sort((one, other) => other[1].length - one[1].length).slice(0, shown)) {
      const element = document.createElement("tr"), names = cell("td", hosts.slice(0, 20).join(", ") + (hosts.length > 20 ? " …" : ""));
      names.colSpan = Math.max(1, chosen.length - 2);
      element.append(cell("td", hosts.length), cell("td", value || "works"), names);
      lines.append(element);
    }
  } else for (const row of found.slice(0, shown)) lines.append(line(row));
  drawHeads();
  byId("lines").replaceChildren(lines);
  byId("count").textContent = found.length + " of " + rows.length + " hosts";
  byId("more").hidden = by >= 0 || found.length <= shown;
}
function drawColumns() {
  byId("columns").replaceChildren(...columns.slice(1).map((name, before) => {
    const label = cell("label", name), box = document.createElement("input"), at = before + 1;
    box.type = "checkbox";
    box.checked = chosen.includes(at);
    box.onchange = () => {
      chosen = columns.map((_, place) => place).filter((place) => place === at ? box.checked : chosen.includes(place));
      draw();
      remember();
    };
    label.prepend(box);
    return label;
  }));
}
// What is looked at stands behind the # of the address: a link shows another reader the same.
function remember() {
  const state = new URLSearchParams();
  for (const id of FIELDS) if (byId(id).value) state.set(id, byId(id).value);
  if (sortBy >= 0) state.set("sort", (falling ? "-" : "") + columns[sortBy]);
  const names = chosen.map((at) => columns[at]).join(",");
  if (names !== SHOWN.join(",")) state.set("columns", names);
  const text = state.toString();
  if (text !== location.hash.slice(1)) history.replaceState(null, "", text ? "#" + text : location.pathname + location.search);
}
function recall() {
  const state = new URLSearchParams(location.hash.slice(1)), sort = state.get("sort") || "";
  for (const id of FIELDS) byId(id).value = state.get(id) || "";
  for (const id of FIELDS) if (byId(id).selectedIndex === -1) byId(id).value = "";  // a choice that this page lacks
  falling = sort.startsWith("-");
  sortBy = columns.indexOf(falling ? sort.slice(1) : sort);
  const named = (state.get("columns") || SHOWN.join(",")).split(",").map((name) => columns.indexOf(name));
  chosen = [0, ...named.filter((at) => at > 0)];
  drawColumns();
  find();
  if (state.has("cause") || state.has("verdict")) byId("hosts").scrollIntoView();
}
function follow(event) {  // a cause's link keeps the columns and their order
  const state = new URLSearchParams(this.hash.slice(1));
  for (const id of FIELDS) byId(id).value = state.get(id) || "";
  find();
  byId("hosts").scrollIntoView();
  event.preventDefault();
}
function copy(button, hosts) {
  const told = (done) => { button.textContent = done ? "copied" : "press Ctrl+C"; };
  const area = document.createElement("textarea");  // a page from a file may not use the clipboard's own interface
  area.value = hosts.join(",");
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  if (done) area.remove(); else area.onblur = () => area.remove();
  told(done);
}
columns.forEach((name, at) => byId("group").append(new Option("by " + name.toLowerCase(), at)));
choices(byId("verdict"), 1, "every verdict");
choices(byId("cause"), 2, "every cause");
for (const id of FIELDS) byId(id).oninput = find;
for (const button of document.querySelectorAll("button[data-cause]")) {
  const has = (row) => row[1] === button.dataset.verdict && row[2] === button.dataset.cause;
  button.onclick = () => copy(button, rows.filter(has).map((row) => row[0]));
}
for (const link of document.querySelectorAll("a[href^='#']")) link.onclick = follow;
byId("copy").onclick = () => copy(byId("copy"), found.map((row) => row[0]));
byId("more").onclick = () => { shown += STEP; draw(); };
onhashchange = recall;
recall();
