import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { renderReport } from '../../src/loadgen/report/page.js';
import { chromiumIsMissing, launchChromium, watchedPage } from '../support/chromium.js';
import { sampleResult } from '../support/sample-result.js';

describe.skipIf(chromiumIsMissing)('the report of a load test in a browser', () => {
  let browser: Browser;
  let folder: string;
  beforeAll(async () => {
    browser = await launchChromium();
    folder = await mkdtemp(join(tmpdir(), 'report-'));
  });
  afterAll(async () => {
    await browser?.close();
    await rm(folder, { recursive: true });
  });

  async function open(result = sampleResult(), options: Parameters<typeof watchedPage>[1] = {}) {
    const file = join(folder, 'report.html');
    await writeFile(file, renderReport(result));
    const watched = await watchedPage(browser, { viewport: { width: 1060, height: 900 }, ...options });
    const url = pathToFileURL(file).href;
    await watched.page.goto(url);
    return { ...watched, url };
  }

  it('asks for nothing but itself, and has no error', async () => {
    const { page, errors, requests, url } = await open();
    expect(errors).toEqual([]);
    expect(requests.filter((request) => !request.startsWith('data:'))).toEqual([url]);
    await page.close();
  });

  it.each(['light', 'dark'] as const)('shows every plot, with marks that can be seen (%s)', async (colorScheme) => {
    const { page } = await open(sampleResult(), { colorScheme });
    const figures = await page.locator('figure').all();
    // Four latencies against throughput, four histograms, one timeline for each of four loads.
    expect(figures).toHaveLength(12);
    const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    for (const figure of figures) {
      const box = (await figure.boundingBox())!;
      expect(box.width).toBeGreaterThan(300);
      const strokes: string[] = await figure
        .locator('path.curve, path.area, path.bar')
        .evaluateAll((marks) => marks.map((mark) => getComputedStyle(mark).stroke));
      expect(strokes.length).toBeGreaterThan(0);
      for (const stroke of strokes) expect([background, 'none']).not.toContain(stroke);
    }
    await page.close();
  });

  it('keeps marks and labels within their plots', async () => {
    const { page } = await open();
    const outside = await page.locator('svg').evaluateAll((plots) =>
      plots.flatMap((plot) => {
        const frame = plot.getBoundingClientRect();
        return [...plot.querySelectorAll('path, circle, text')]
          .filter((mark) => {
            const box = mark.getBoundingClientRect();
            const slack = 1;
            return (
              box.left < frame.left - slack ||
              box.right > frame.right + slack ||
              box.top < frame.top - slack ||
              box.bottom > frame.bottom + slack
            );
          })
          .map((mark) => mark.outerHTML);
      }),
    );
    expect(outside).toEqual([]);
    await page.close();
  });

  it('does not scroll sideways, on a wide screen or a narrow one', async () => {
    const { page } = await open();
    for (const width of [1400, 1060, 390]) {
      await page.setViewportSize({ width, height: 800 });
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
    }
    await page.close();
  });

  it('shows names as text, whatever is in them', async () => {
    const { page, errors } = await open(sampleResult('<img src=x onerror="document.title=1"><script>throw 1</script>'));
    expect(await page.locator('h1').textContent()).toContain('<script>throw 1</script>');
    expect(await page.locator('img, script').count()).toBe(0);
    expect(errors).toEqual([]);
    await page.close();
  });
});
