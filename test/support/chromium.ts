/** Debian's Chromium, driven through playwright-core, with every request of a page noted. */
import { existsSync } from 'node:fs';
import { type Browser, chromium, type Page } from 'playwright-core';

const EXECUTABLE = process.env['CHROMIUM'] ?? '/usr/bin/chromium';

/** In continuous integration a missing browser fails the tests that need one; elsewhere they are skipped, and say so. */
export const chromiumIsMissing = !existsSync(EXECUTABLE) && process.env['CI'] === undefined;
if (chromiumIsMissing) {
  console.warn(`BROWSER TESTS SKIPPED: no ${EXECUTABLE}. Run .ci/install-tools, or name one in CHROMIUM.`);
}

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export function launchChromium(): Promise<Browser> {
  return chromium.launch({ executablePath: EXECUTABLE, headless: true, args: FLAGS });
}

export interface WatchedPage {
  readonly page: Page;
  /** Uncaught errors, errors on the console and violations of the page's own policy. */
  readonly errors: string[];
  /** The URL of everything that the page asked for. */
  readonly requests: string[];
}

export async function watchedPage(
  browser: Browser,
  options: Parameters<Browser['newPage']>[0] = {},
): Promise<WatchedPage> {
  const page = await browser.newPage(options);
  const errors: string[] = [];
  const requests: string[] = [];
  page.on('pageerror', (error) => errors.push(error.message));
  page.on('console', (message) => {
    if (message.type() === 'error') errors.push(message.text());
  });
  page.on('request', (request) => requests.push(request.url()));
  return { page, errors, requests };
}
