import { expect, test } from 'vitest';
import { openConsole } from '../../support/console.ts';
import { isTooWide, openPage, seriousFindings } from '../../support/browser.ts';
import { makeNotification } from '../../support/push.ts';
import { openReplicaBench } from '../../support/replica.ts';
import { waitFor } from '../../support/wait.ts';
import { HOUR, openSchool } from '../../console/school.ts';

const ID = 'teacher-42';

test('an operator sees why alerts wait, and what an action does comes true as its preview says', async () => {
  const bench = await openReplicaBench();
  const { sandbox, producer, prefix, queue } = bench;
  await bench.startHere({ LIMIT_RULES: '2/1h', LIMIT_MIN_GAP: '0' });
  await producer.enqueueMany(Array.from({ length: 14 }, () => makeNotification({ recipientId: ID })));
  await waitFor(async () => expect([sandbox.journal.accepted.length, await queue.getDelayedCount()]).toEqual([2, 12]));
  const console = await openConsole({ QUEUE_PREFIX: prefix });
  const { page, faults } = await openPage();

  await page.goto(`${console.url}/what-if?rules=none&gap=0&recipient=${ID}`);
  await page.getByText('12 would go earlier, 0 later, 0 at the same time.').waitFor();
  await page.goto(`${console.url}/recipients/${ID}`);
  await page.getByText('12 notifications wait').waitFor();
  expect(await page.getByRole('cell', { name: '2/1h', exact: true }).count()).toBe(12);
  expect(await page.locator('svg .mark.reserved').count()).toBeGreaterThan(3);
  expect(await seriousFindings(page)).toEqual([]);

  await page.getByText('Block', { exact: true }).click();
  await page.getByLabel('For', { exact: false }).first().fill('9h');
  await page.getByLabel('Reason').fill("parents' evening");
  await page.getByRole('button', { name: 'Preview' }).click();
  const outcome = await page.locator('.outcome').innerText();
  expect(outcome).toMatch(/^All 12 that wait move, the last one to \S+T\S+Z/);
  expect(await seriousFindings(page)).toEqual([]);
  await page.getByRole('button', { name: 'Block', exact: true }).click();
  await page.getByText('Done: the recipient is blocked; 12 notifications moved.').waitFor();
  await page.getByText("parents' evening").waitFor();
  const times = await page.locator('#live-waiting tr td:first-child time').all();
  const slots = await Promise.all(times.map(async (time) => Number(await time.getAttribute('data-at'))));
  const last = new Date(Math.max(...slots)).toISOString().slice(0, 19);
  expect(outcome).toContain(`the last one to ${last}Z`);
  const due = Math.max(...(await queue.getDelayed()).map(({ timestamp, delay }) => timestamp + delay));
  expect(due).toBeGreaterThan(Date.now() + 9 * HOUR);

  await page.goto(`${console.url}/audit`);
  const done = await page.locator('tbody tr td:nth-child(3)').allInnerTexts();
  expect(done).toEqual(['recipient block']);
  expect(faults).toEqual([]);
});

test('without scripts, on a narrow screen, in the dark: it can be read and used', async () => {
  const bench = await openConsole();
  const { wait, limiter } = openSchool(bench);
  const hostile = `<script>document.title='x'</script>"'${'y'.repeat(200)}`;
  const ids = Array.from({ length: 40 }, (_, number) => ({ id: `msg-${number}` }));
  await wait(hostile, ...ids);
  const path = `${bench.url}/recipients/${encodeURIComponent(hostile)}`;
  const narrow = { viewport: { width: 390, height: 844 }, colorScheme: 'dark' } as const;

  const { page } = await openPage({ ...narrow, javaScriptEnabled: false });
  await page.goto(path);
  await page.getByText('Forget what was sent').click();
  await page.getByText('What was sent counts no longer').waitFor();
  await page.getByRole('button', { name: 'Preview' }).click();
  await page.getByRole('button', { name: 'Forget what was sent' }).click();
  await page.getByText('Done: what was sent counts no longer').waitFor();
  expect((await limiter.inspect(hostile)).sent).toEqual([]);

  const scripted = await openPage(narrow);
  for (const of of [path, `${path}/block?for=1h&reason=exam`, `${bench.url}/what-if?rules=1/1m&gap=0`]) {
    await scripted.page.goto(of);
    expect(await isTooWide(scripted.page), of).toBe(false);
    expect(await seriousFindings(scripted.page), of).toEqual([]);
  }
  expect(scripted.faults).toEqual([]);
});
