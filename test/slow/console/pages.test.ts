import { describe, expect, it, vi } from 'vitest';
import { DURATION, lineChart, NOTIFICATIONS, PER_SECOND } from '../../../console/pages/chart.ts';
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

  it('the menu is in one line', async () => {
    const { url } = await openConsole();
    const { page } = await openPage(look);
    for (const path of ['/', '/dead-letters']) {
      await page.goto(`${url}${path}`);
      const tops = `[...document.querySelectorAll('header nav a')].map((each) => each.getBoundingClientRect().top)`;
      const found = await page.evaluate<number[]>(tops);
      expect(found).toHaveLength(5);
      expect([path, new Set(found).size]).toEqual([path, 1]);
    }
  });
});

/** The texts of the charts that are cut by the edge of their section, or lie over another text of the same chart. */
const TEXTS_THAT_COLLIDE = `[...document.querySelectorAll('.chart')].flatMap((chart) => {
  const texts = [...chart.querySelectorAll('figcaption, .marks span, text, .key-of li')].map((each) => {
    const range = document.createRange();
    range.selectNodeContents(each);
    const { left, right, top, bottom } = range.getBoundingClientRect();
    return { text: each.textContent.trim(), left, right, top, bottom };
  });
  const { left, right } = chart.closest('section').getBoundingClientRect();
  const isOver = (a, b) => a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom;
  return texts.filter((one) => one.left < left || one.right > right || texts.some((other) => other !== one && isOver(one, other)))
    .map(({ text }) => text);
})`;

it.each(LOOKS)('the texts of charts are whole, and apart, $viewport.width px wide', async (look) => {
  const { url } = await openWaiting();
  const { page } = await openPage({ ...look, javaScriptEnabled: false });
  const times = Array.from({ length: 360 }, (_, place) => Date.UTC(2026, 10, 21, 12) + 10_000 * place);
  for (const [most, unit, many] of [
    [5_000, NOTIFICATIONS, 360],
    [1_234_567, NOTIFICATIONS, 7],
    [12_345, PER_SECOND, 60],
    [90_061_000, DURATION, 360],
  ] as const) {
    const lines = ['sent', 'requeued'].map((name) => ({
      name,
      values: times.slice(-many).map((_, place) => (most * place) / (many - 1)),
    }));
    const chart = await lineChart({ title: 'Sent and requeued', unit, lines, empty: '' }, times.slice(-many));
    await page.route('**/', async (route) => {
      const text = await (await route.fetch()).text();
      const body = text.replaceAll(/<figure class="chart">[^]*?<\/figure>/g, () => String(chart));
      await route.fulfill({ body, contentType: 'text/html' });
    });
    await page.goto(url);
    expect(await page.locator('.chart text').count()).toBeGreaterThan(8);
    expect([most, await page.evaluate(TEXTS_THAT_COLLIDE)]).toEqual([most, []]);
    expect(await isTooWide(page)).toBe(false);
    await page.unroute('**/');
  }
});

const TICKS_THAT_COLLIDE = `(() => {
  const all = [...document.querySelectorAll('.timeline .tick')].map((each) => ({ text: each.firstChild.data.trim(), ...each.getBoundingClientRect().toJSON() }));
  const { left, right } = document.querySelector('.timeline').getBoundingClientRect();
  return all.filter((one, place) => one.left < left - 1 || one.right > right + 1 || one.right > (all[place + 1]?.left ?? Infinity)).map(({ text }) => text);
})()`;

it.each(LOOKS)('the timeline is drawn whole in each range, $viewport.width px wide', async (look) => {
  const { url } = await openWaiting();
  const { page } = await openPage({ ...look, javaScriptEnabled: false });
  await page.goto(`${url}/recipients/ana`);
  for (const name of ['10 min', '1 h', '1 d', 'all', '1 min']) {
    const link = page.getByRole('link', { name, exact: true });
    await link.focus();
    await page.keyboard.press('Enter');
    await page.locator(`.ranges a[aria-current]`, { hasText: name }).waitFor();
    expect([name, await isTooWide(page)]).toEqual([name, false]);
    expect([name, await page.evaluate(TICKS_THAT_COLLIDE)]).toEqual([name, []]);
  }
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
