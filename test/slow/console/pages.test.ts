import { describe, expect, it, vi } from 'vitest';
import { openSchool } from '../../console/school.ts';
import { isTooWide, openPage, seriousFindings } from '../../support/browser.ts';
import { openConsole } from '../../support/console.ts';

vi.setConfig({ testTimeout: 90_000 }); // a browser starts

const PATHS = ['/', '/search?q=msg', '/recipients/ana', '/notifications/msg-1', '/dead-letters', '/what-if', '/audit'];
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
    }
    expect(faults).toEqual([]);
  });
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
