import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
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

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Axe {
  run(): Promise<{ violations: readonly { id: string; impact: string; nodes: readonly { html: string }[] }[] }>;
}

/** What axe finds serious or critical in a page. It runs beside the page's own policy, which lets no other script in. */
export async function seriousIn(page: Page): Promise<unknown[]> {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => (globalThis as unknown as { axe: Axe }).axe.run());
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => ({ id, nodes: nodes.map(({ html }) => html) }));
}
