// node search.mjs SITE WORDS [LIST...]: types each of the words into the site's search; the first answer must be on a page that WORDS
// names. Of each list 26 of 30 must lead to such a page.
import { readFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const [site, words, ...chosen] = process.argv.slice(2);
const GOAL = 26;
const lists = JSON.parse(readFileSync(words, "utf-8"));
const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--allow-file-access-from-files"] });
const tab = await browser.newPage();
await tab.goto(pathToFileURL(path.join(site, "index.html")).href, { waitUntil: "load" });
const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
// The dialog is in a shadow root, with a link for each answer.
const first = () => tab.evaluate(() => {
  const links = [];
  const walk = (root, inside) => {
    for (const each of root.querySelectorAll("*")) {
      if (each.shadowRoot) walk(each.shadowRoot, true);
      if (inside && each.tagName === "A" && each.href) links.push(each.href);
    }
  };
  walk(document, false);
  return links[0] ?? "";
});
await wait(1000);
async function type(typed) {
  await tab.keyboard.press("Escape");
  await wait(100);
  await tab.keyboard.down("Control");
  await tab.keyboard.press("k");
  await tab.keyboard.up("Control");
  await wait(300);
  await tab.keyboard.down("Control");
  await tab.keyboard.press("a");
  await tab.keyboard.up("Control");
  await tab.keyboard.type(typed);
  await wait(500);
  return first();
}

let missed = false;
for (const [name, asked] of Object.entries(lists)) {
  if (chosen.length && !chosen.includes(name)) continue;
  let useful = 0;
  for (const [typed, pages] of Object.entries(asked)) {
    const answer = await type(typed);
    if (pages.some((page) => answer.includes(`/${page}.html`))) useful += 1;
    else console.log(`  ${typed}: ${answer.replace(/.*\/site\//, "") || "nothing"}`);
  }
  console.log(`${name}: ${useful} of ${Object.keys(asked).length} words lead to a useful first answer`);
  missed ||= useful < GOAL;
}
await browser.close();
process.exit(missed ? 1 : 0);
