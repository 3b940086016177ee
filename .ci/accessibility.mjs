// node accessibility.mjs SCREENSHOTS PAGE...: axe's violations on each page, a screenshot of each view, and what Tab does not reach.
import axe from "axe-core";
import puppeteer from "puppeteer-core";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [screenshots, ...pages] = process.argv.slice(2);
const VIEWS = [["desktop", 1280, 900], ["phone", 390, 844]];
const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
let checked = 0, violations = 0;
const MOST = 400; // presses of Tab on one page

// What can be used with a mouse is reached by Tab, shows that it has the focus, and lets it go again.
async function walk(tab) {
  const expected = await tab.evaluate(() => {
    const usable = document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']");
    const shown = [...usable].filter((item) => item.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && !item.disabled && item.tabIndex >= 0 && !item.closest("[inert]"));
    shown.forEach((item, index) => (item.dataset.walked = index));
    return shown.length;
  });
  const reached = new Set(), hidden = new Set();
  for (let presses = 0; presses < Math.min(2 * expected + 20, MOST); presses += 1) {
    await tab.keyboard.press("Tab");
    const found = await tab.evaluate(() => {
      const item = document.activeElement, style = getComputedStyle(item);
      const marked = style.outlineStyle !== "none" || style.boxShadow !== "none" || item.matches(":focus-visible");
      return { index: item.dataset.walked, marked, html: item.outerHTML.slice(0, 80) };
    });
    if (found.index !== undefined) reached.add(Number(found.index));
    if (!found.marked && found.index !== undefined) hidden.add(found.html);
  }
  const missed = await tab.evaluate((reached) => [...document.querySelectorAll("[data-walked]")].filter((item) => !reached.includes(Number(item.dataset.walked))).map((item) => item.outerHTML.replace(/\s+/g, " ").slice(0, 100)), [...reached]);
  const lines = [...hidden].map((html) => `keyboard: the focus does not show: ${html}`);
  if (missed.length && 2 * expected < MOST) lines.push(`keyboard: Tab does not reach ${missed.length} of ${expected}: ${missed[0]}`);
  return lines;
}
for (const page of pages) {
  for (const [view, width, height] of VIEWS) {
    for (const scheme of ["light", "dark"]) {
      const visitor = await browser.createBrowserContext(); // a choice of light or dark is remembered
      const tab = await visitor.newPage();
      const failed = [];
      tab.on("pageerror", (error) => failed.push(`script: ${error.message}`));
      await tab.setViewport({ width, height, isMobile: view === "phone", hasTouch: view === "phone" });
      await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await tab.goto(pathToFileURL(page).href, { waitUntil: "load" });
      await tab.evaluate(axe.source);
      const found = await tab.evaluate(() => axe.run());
      const overflow = await tab.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      if (overflow > 0) failed.push(`the page is ${overflow} pixels wider than the screen`);
      const lines = found.violations.map((item) => `${item.id}: ${item.nodes.length} x ${item.nodes[0].target} ${item.nodes[0].html.replace(/\s+/g, " ").slice(0, 120)}`);
      if (view === "desktop" && scheme === "light") failed.push(...(await walk(tab)));
      for (const line of [...lines, ...failed]) console.log(`${page} ${view} ${scheme}: ${line}`);
      violations += lines.length + failed.length;
      checked += 1;
      const name = page.replace(/^build\/(site|pages\/reports)\//, "").replaceAll("/", "-").replace(".html", "");
      await tab.screenshot({ path: path.join(screenshots, `${name}-${view}-${scheme}.png`) });
      await visitor.close();
    }
  }
}
await browser.close();
console.log(`${checked} views of ${pages.length} pages: ${violations} violations`);
process.exit(violations ? 1 : 0);
