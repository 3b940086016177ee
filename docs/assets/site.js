// Tables of the reference: a field that filters their rows, and columns that sort them.
const collator = new Intl.Collator(undefined, { numeric: true });

function filterable(region) {
  const rows = [...region.querySelectorAll("tbody tr")];
  const label = document.createElement("label");
  const field = document.createElement("input");
  const count = document.createElement("output");
  field.type = "search";
  label.className = "filter";
  label.append(`Filter ${region.getAttribute("aria-label")} `, field, count);
  const show = () => {
    const words = field.value.toLowerCase().split(/\s+/);
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    count.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows`;
  };
  field.addEventListener("input", show);
  region.before(label);
  show();
}

function sortable(region) {
  const body = region.querySelector("tbody");
  region.querySelectorAll("th").forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      region.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const text = (row) => row.cells[column].textContent;
      const sorted = [...body.rows].sort((one, other) => collator.compare(text(one), text(other)));
      body.append(...(down ? sorted.reverse() : sorted));
    });
  });
}

document.querySelectorAll(".searchable").forEach((region) => {
  filterable(region);
  sortable(region);
});

// What scrolls can be reached by keyboard, and the buttons of each block of code are a landmark of its own.
function reachable() {
  for (const scrolling of document.querySelectorAll("pre > code, .md-typeset__scrollwrap"))
    if (scrolling.scrollWidth > scrolling.clientWidth) scrolling.tabIndex = 0;
  document.querySelectorAll("nav.md-code__nav").forEach((buttons, index) => {
    buttons.setAttribute("aria-label", `Code block ${index + 1}`);
  });
}
reachable();
addEventListener("resize", reachable);
new MutationObserver(reachable).observe(document.body, { childList: true, subtree: true });
