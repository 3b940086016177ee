// node accessibility.mjs SCREENSHOTS PAGE...: axe's violations on each page, and a screenshot of each view.
import axe from "axe-core";
import puppeteer from "puppeteer-core";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [screenshots, ...pages] = process.argv.slice(2);
const VIEWS = [["desktop", 1280, 900], ["phone", 390, 844]];
const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
let checked = 0, violations = 0;
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
