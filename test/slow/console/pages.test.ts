import { describe, expect, it, vi } from 'vitest';
import { previewPath } from '../../../console/pages/dead-letter-choice.ts';
import { openSchool } from '../../console/school.ts';
import { deadLetter } from '../../dead-letters/letters.ts';
import { cutParts, isTooWide, openPage, seriousFindings } from '../../support/browser.ts';
import { openConsole } from '../../support/console.ts';

vi.setConfig({ testTimeout: 90_000 }); // a browser starts

const PATHS = [
  ...['/', '/search?q=msg', '/recipients/ana', '/notifications/msg-1', '/dead-letters', '/what-if', '/audit'],
  ...['/recipients/ana/block?for=2h&reason=exam', '/what-if?rules=1/1h&gap=0&recipient=ana'],
  ...['/dead-letters/one?shard=0&id=msg-dead', previewPath({ verb: 'replay', which: {} })],
  previewPath({ verb: 'discard', which: {} }),
];
const LOOKS = [
  { colorScheme: 'light', viewport: { width: 1280, height: 900 } },
  { colorScheme: 'dark', viewport: { width: 390, height: 844 } },
] as const;

/** Keeps what is drawn as text, and where, in device pixels. */
const NOTE_TEXTS = `
  globalThis.drawn = [];
  const fill = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    const { width } = this.measureText(text);
    const left = { right: x - width, center: x - width / 2 }[this.textAlign] ?? x;
    drawn.push({ text, left, right: left + width, width: this.canvas.width });
    return fill.call(this, text, x, y);
  };`;

interface Drawn {
  readonly text: string;
  readonly left: number;
  readonly right: number;
  readonly width: number;
}

/** Twelve notifications wait for one recipient. */
async function openWaiting() {
  const bench = await openConsole();
  const ids = Array.from({ length: 12 }, (_, index) => ({ id: `msg-${index}` }));
  const school = openSchool(bench);
  await school.wait('ana', ...ids);
  for (const id of ['msg-dead', 'a-long-id-of-an-app-that-has-uuids-6f1c8a52-30a7-4c7b'])
    await bench.deadQueue.add('push', deadLetter(id), { jobId: id });
  return { ...bench, ...school };
}

describe.each(LOOKS)('in a browser, $colorScheme, $viewport.width px wide', (look) => {
  it('every page has no serious fault of accessibility, and is no wider than the screen', async () => {
    const { url } = await openWaiting();
    const { page, faults } = await openPage(look);
    for (const path of PATHS) {
      await page.goto(`${url}${path}`);
      expect([path, await seriousFindings(page)]).toEqual([path, []]);
      expect([path, await isTooWide(page)]).toEqual([path, false]);
      expect([path, await cutParts(page)]).toEqual([path, []]);
    }
    expect(faults).toEqual([]);
  });
});

it('names the values of a chart with their unit, whole, and no minute twice', async () => {
  const { url } = await openWaiting();
  const { page } = await openPage();
  await page.addInitScript(NOTE_TEXTS);
  const from = Date.UTC(2026, 10, 21, 12) / 1_000;
  const times = Array.from({ length: 12 }, (_, index) => from + 10 * index);
  await page.route('**/', async (route) => {
    const chart = JSON.stringify({ times, lines: [{ name: 'p99', values: times.map(() => 10_000) }] });
    const text = await (await route.fetch()).text();
    const body = text.replaceAll(/data-chart="[^"]*"/g, `data-chart="${chart.replaceAll('"', '&quot;')}"`);
    await route.fulfill({ body, contentType: 'text/html' });
  });
  await page.goto(url);
  await expect.poll(() => page.evaluate<number>('drawn.length')).toBeGreaterThan(20);
  const drawn = await page.evaluate<Drawn[]>('drawn');
  expect(drawn.filter(({ left, right, width }) => left < 0 || right > width)).toEqual([]);
  const texts = drawn.map(({ text }) => text);
  expect(texts).toEqual(expect.arrayContaining(['10s', '5,000/s', '10,000', '10,000s']));
  const minutes = texts.filter((text) => text.endsWith('Z'));
  expect(minutes.filter((text, index) => text === minutes[index + 1])).toEqual([]);
  expect(minutes.length).toBeGreaterThan(4);
});

it('refreshes itself without moving anything, and shows what is new', async () => {
  const { url, wait } = await openWaiting();
  const { page, faults } = await openPage();
  await page.goto(url);
  const waiting = page.locator('.tile', { hasText: 'Waiting' }).locator('strong');
  expect(await waiting.textContent()).toBe('12');
  const places = () =>
    page.evaluate<number[]>(
      "[...document.querySelectorAll('h2, .tile, .chart')].map((each) => each.getBoundingClientRect().top)",
    );
  const before = await places();
  await wait('ana', { id: 'msg-new' });
  await expect.poll(() => waiting.textContent(), { timeout: 20_000 }).toBe('13');
  expect(await places()).toEqual(before);
  expect(faults).toEqual([]);
});

it('says that it is old while it cannot be refreshed', async () => {
  const { url } = await openWaiting();
  const { page } = await openPage();
  await page.goto(url);
  await page.route('**/*', (route) => route.abort());
  await page.waitForSelector('#stale', { timeout: 20_000 });
  expect(await page.locator('#stale').textContent()).toContain('cannot be refreshed');
  await page.unroute('**/*');
  await page.waitForSelector('#stale', { state: 'detached', timeout: 20_000 });
});

it('is used by the keyboard alone: search, and from there to the notification', async () => {
  const { url } = await openWaiting();
  const { page } = await openPage();
  await page.goto(url);
  await page.keyboard.press('/');
  await page.waitForURL('**/search');
  await page.waitForFunction('document.activeElement.id === "q"');
  await page.keyboard.type('msg-3');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/search?q=msg-3');
  await page.locator('a', { hasText: 'msg-3' }).first().focus();
  await page.keyboard.press('Enter');
  await page.waitForURL('**/notifications/msg-3');
  expect(await page.locator('h1').textContent()).toContain('msg-3');
});

it('logs in and out', async () => {
  const { url, secrets } = await openConsole({ CONSOLE_LOGIN: 'true' }, { vera: ['read'] });
  const { page } = await openPage();
  await page.goto(`${url}/audit`);
  await page.getByLabel('Token').fill(secrets['vera'] ?? '');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.waitForURL('**/audit');
  expect(await page.locator('.user').textContent()).toContain('vera (viewer)');
  await page.goto(`${url}/recipients/ana`);
  expect(await page.locator('main form').count()).toBe(0);
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.waitForURL('**/login');
  await page.goto(url);
  expect(page.url()).toMatch(/\/login$/);
});
