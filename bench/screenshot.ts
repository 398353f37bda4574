/** A picture of a report of `sluice bench`: `node bench/run.mjs screenshot report.html picture.png`. */
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { launchChromium, watchedPage } from '../test/support/chromium.js';

const [report, picture] = process.argv.slice(2);
if (report === undefined || picture === undefined) {
  throw new Error('usage: node bench/run.mjs screenshot report.html picture.png');
}
const browser = await launchChromium();
const { page } = await watchedPage(browser, { viewport: { width: 1060, height: 800 }, colorScheme: 'light' });
await page.goto(pathToFileURL(resolve(report)).href);
await page.screenshot({ path: picture, fullPage: true });
await browser.close();
