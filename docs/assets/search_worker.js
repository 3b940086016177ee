// The search of the site, in place of the worker that Zensical brings: that one finds a page only where each word that
// was typed stands in one section of it, and a line of an error never does. This one ranks pages by the words that they
// have (BM25 over titles, headings and text). docs/build.py puts it where the page looks for the other.
const SHOWN = 20;
const TITLE = 2.2; // what a word in a title adds, more where the title has few others
const HEADING = 0.5;
const PAIR = 1.6; // what two neighbours add that were typed as neighbours
// A reader comes for a guide or a finding; what lists every option or key has each word once.
const KINDS = { "how-to": 1.25, tutorial: 1.15, findings: 1.15, schemas: 0.6, commands: 0.6, "python-api": 0.7 };
const STOPPED = new Set(
  ("a an and are as at be but by can could did do does for from had has have how i if in into is it its me my of on or " +
    "out so than that the their them then there these this those to use using was we were what when where which why " +
    "will with would you your error errors exception failed fails fix problem get got need").split(" "),
);
// What people say, and what the pages say.
const SAME = {
  airgapped: "offline internet", gapped: "offline internet", docker: "container", podman: "container", k8s: "kubernetes",
  downgrade: "older old", upgrade: "update newer", multiple: "several two", overheating: "heat temperature", hot: "heat",
  throttling: "slowed", slow: "slowed", broken: "damaged repair", fix: "repair", compatible: "fit", compatibility: "together",
  supported: "supports", unsupported: "drops", detect: "see", recognized: "see", recognised: "see", found: "see",
  test: "check", verify: "check", computer: "machine", server: "machine", ci: "gate", pipeline: "gate", remove: "uninstall undo",
};

let texts = [];
let pages = [];
let frequency = new Map();
let average = 1;

const plain = (html) => html.replace(/<[^>]*>/g, " ").replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&quot;/g, '"').replace(/&amp;/g, "&");

function stem(word) {
  const root = word.replace(/(?<=...)(ing|ies|ed|es|s)$/, "");
  return /\d/.test(word) || root.length < 3 ? word : root;
}

// A name such as libcudnn.so.8 or torch.cuda counts whole and by its parts.
function* split(text) {
  for (const [name] of text.toLowerCase().matchAll(/[a-z0-9_]+(?:[.+][a-z0-9_]+)*/g)) {
    yield stem(name);
    const parts = name.split(/[._+]+/).filter((part) => part.length > 1);
    if (parts.length > 1) yield* parts.map(stem);
  }
}

const SYNONYMS = new Map(Object.entries(SAME).map(([word, same]) => [stem(word), same]));

function build(items) {
  const found = new Map();
  items.forEach((item, id) => {
    const address = item.location.split("#")[0];
    if (!found.has(address)) {
      const kind = address.split(/[/.]/).slice(0, -1).reverse().find((part) => part in KINDS);
      const name = address.replace(/.*\/|\.html$/g, " ");
      found.set(address, { ...part(id, `${item.title} ${name}`), sections: [], factor: KINDS[kind] ?? 1 });
    }
    const page = found.get(address);
    const section = part(id, item.title);
    for (const each of [page, section]) read(each, `${item.title} ${plain(item.text)}`);
    for (const word of section.title) page.headings.add(word);
    page.sections.push(section);
  });
  texts = items.map((item) => item.text);
  pages = [...found.values()];
  frequency = new Map();
  for (const { words } of pages) for (const word of words.keys()) frequency.set(word, (frequency.get(word) ?? 0) + 1);
  average = pages.reduce((sum, { length }) => sum + length, 0) / Math.max(pages.length, 1);
}

const part = (id, title) => ({ id, title: new Set(split(plain(title))), headings: new Set(), words: new Map(), pairs: new Set(), length: 0 });

function read(part, text) {
  let last = "";
  for (const word of split(text)) {
    part.words.set(word, (part.words.get(word) ?? 0) + 1);
    part.pairs.add(`${last} ${word}`);
    part.length += 1;
    last = word;
  }
}

const rarity = (word) => {
  const n = frequency.get(word) ?? 0;
  return n && Math.log(1 + (pages.length - n + 0.5) / (n + 0.5));
};

function weigh(part, { words, pairs }) {
  const long = 1.2 * (0.6 + (0.4 * part.length) / average);
  const typed = new Set(words.flatMap(({ names }) => names.map(([word]) => word)));
  const share = [...part.title].filter((word) => typed.has(word)).length / Math.max(part.title.size, 1);
  const worth = (word) => {
    const times = part.words.get(word) ?? 0;
    return times / (times + long) + (part.title.has(word) ? TITLE * (0.4 + share) : part.headings.has(word) ? HEADING : 0);
  };
  let score = 0;
  let met = 0;
  let all = 0;
  for (const { names, value } of words) {
    const best = Math.max(...names.map(([word, share]) => share * rarity(word) * worth(word)));
    score += best;
    met += best ? value : 0;
    all += value;
  }
  for (const pair of pairs) if (part.pairs.has(pair)) score += PAIR * Math.min(...pair.split(" ").map(rarity));
  return all ? score * (met / all) : 0;
}

// The last word may be unfinished: what begins with it counts as well, and so does what people call otherwise.
function ask(input) {
  const typed = [...split(input)];
  const asked = typed.filter((word) => !STOPPED.has(word));
  const words = [...new Set(asked.length ? asked : typed)];
  const pairs = typed.slice(1).map((word, index) => `${typed[index]} ${word}`);
  const known = words.map((word, index) => {
    const names = [[word, 1]];
    for (const same of (SYNONYMS.get(word) ?? "").split(" ").filter(Boolean)) names.push([stem(same), 0.8]);
    if (index === words.length - 1 && !frequency.has(word) && word.length > 1)
      for (const each of frequency.keys()) if (each.startsWith(word)) names.push([each, 0.7]);
    return { names, value: Math.max(...names.map(([each]) => rarity(each))) || 0.5 };
  });
  return { words: known, pairs };
}

function search(input) {
  const asked = typeof input === "string" ? ask(input) : { words: [], pairs: [] };
  const found = [];
  for (const page of pages) {
    const score = weigh(page, asked) * page.factor;
    if (!score) continue;
    const [first, ...rest] = page.sections;
    let best = first;
    for (const section of rest) if (weigh(section, asked) > 1.3 * weigh(best, asked)) best = section;
    found.push({ score, id: best.id });
  }
  found.sort((one, other) => other.score - one.score || one.id - other.id);
  const typed = new Set(asked.words.flatMap(({ names }) => names.map(([word]) => word)));
  return found.slice(0, SHOWN).map(({ id }) => ({ id, matches: [{ field: "text", value: { highlight: { ranges: mark(texts[id], typed) } } }] }));
}

// Where the words stand in a text of HTML, so that the page shows that part of it.
function mark(text, typed) {
  const ranges = [];
  for (const { 0: found, index } of text.matchAll(/<[^>]*>|&\w+;|\w+(?:[.+]\w+)*/g))
    if (/^\w/.test(found) && [...split(found)].some((word) => typed.has(word)))
      ranges.push({ start: index, end: index + found.length, value: 0 });
  return ranges;
}

self.onmessage = ({ data: { type, data } }) => {
  if (type === 0) {
    build(data.items);
    self.postMessage({ type: 1 });
  }
  if (type === 2) {
    const items = search(data.input);
    self.postMessage({ type: 3, data: { items, pagination: { total: items.length } } });
  }
};
