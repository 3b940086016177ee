"use strict";
const fleet = JSON.parse(document.getElementById("fleet").textContent);
const columns = fleet.columns, rows = fleet.rows;  // a row: [host, verdict, cause, message, ...]
const byId = (id) => document.getElementById(id);
const STEP = 200;
let shown = STEP, sortBy = -1, falling = false, found = rows;

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
}
function line(row) {
  const element = cell("tr", "", fleet.tones[row[1]]);
  row.forEach((text, at) => element.append(cell("td", text, at === 1 ? "tone" : "")));
  return element;
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
      names.colSpan = columns.length - 2;
      element.append(cell("td", hosts.length), cell("td", value || "works"), names);
      lines.append(element);
    }
  } else for (const row of found.slice(0, shown)) lines.append(line(row));
  byId("lines").replaceChildren(lines);
  byId("count").textContent = found.length + " of " + rows.length + " hosts";
  byId("more").hidden = by >= 0 || found.length <= shown;
}
columns.forEach((name, at) => {
  const head = cell("th", ""), button = cell("button", name);
  button.onclick = () => { falling = sortBy === at && !falling; sortBy = at; find(); };
  head.append(button);
  byId("heads").append(head);
  byId("group").append(new Option("by " + name.toLowerCase(), at));
});
choices(byId("verdict"), 1, "every verdict");
choices(byId("cause"), 2, "every cause");
for (const id of ["words", "verdict", "cause", "group"]) byId(id).oninput = find;
byId("more").onclick = () => { shown += STEP; draw(); };
find();
