import axe from 'axe-core';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { onTestFinished } from 'vitest';
import { launchBrowser } from '../../tools/browser.ts';

/** What went wrong in a page, as its console says it: faults of scripts, and what the Content-Security-Policy refused. */
export interface OpenPage {
  readonly page: Page;
  readonly faults: readonly string[];
}

/** A page in a browser, which is closed after the test. */
export async function openPage(options: BrowserContextOptions = {}): Promise<OpenPage> {
  const browser = await launchBrowser();
  onTestFinished(() => browser.close());
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options });
  const faults: string[] = [];
  page.on('pageerror', ({ message }) => faults.push(message));
  page.on('console', (line) => {
    if (line.type() === 'error') faults.push(line.text());
  });
  return { page, faults };
}

/** What axe finds that keeps people from using the page. */
export async function seriousFindings(page: Page): Promise<unknown> {
  await page.evaluate(axe.source);
  return page.evaluate(`axe.run().then(({ violations }) => violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => [id, ...nodes.map(({ html }) => html)]))`);
}

/** What of the page's parts is cut at the right, or has to be scrolled to: their texts. */
export function cutParts(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(`[...document.querySelectorAll('a, button, input, th, td, summary, .badge')]
    .filter((each) => each.checkVisibility() && !each.closest('thead, .skip'))
    .filter((each) => {
      const { right } = each.getBoundingClientRect();
      const room = (each.closest('.scroll') ?? document.documentElement).getBoundingClientRect().right;
      return right > room + 1 || (each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).overflowX !== 'visible');
    })
    .map((each) => each.textContent.trim() || each.outerHTML)`);
}

/** Whether the page is wider than the screen. */
export function isTooWide(page: Page): Promise<boolean> {
  return page.evaluate<boolean>('document.documentElement.scrollWidth > innerWidth');
}
