import { expect, test, vi } from 'vitest';
import { NO_LATENCY } from '../../../sandbox/loopback/timing.ts';
import { addDead, deadLetter } from '../../dead-letters/letters.ts';
import { openPage, seriousFindings } from '../../support/browser.ts';
import { openConsole } from '../../support/console.ts';
import { makeDevice, makeNotification } from '../../support/push.ts';
import { waitFor } from '../../support/wait.ts';
import { openWorkerBench } from '../../support/worker.ts';

vi.setConfig({ testTimeout: 90_000 }); // a browser and a worker start

test('an operator replays all of a reason from the page, and a real worker delivers them', async () => {
  const bench = await openWorkerBench({ latency: NO_LATENCY });
  const { sandbox, queue, deadQueue, prefix } = bench;
  await bench.startWorker();
  const console = await openConsole({ QUEUE_PREFIX: prefix });
  const refused = Array.from({ length: 8 }, () => makeDevice());
  for (const { token } of refused) {
    sandbox.apns.script(token, [{ kind: 'refuse', status: 400, reason: 'BadDeviceToken' }]);
  }
  const jobs = refused.map((device, n) => ({
    ...{ name: 'push', data: makeNotification({ devices: [device], recipientId: `teacher-${n}` }) },
    opts: { priority: 10 },
  }));
  await queue.addBulk(jobs);
  await waitFor(async () => expect(await deadQueue.getJobCountByTypes('wait')).toBe(8));
  await addDead(deadQueue, { other: deadLetter('other', { reason: 'stalled' }) });
  const before = sandbox.journal.accepted.length;

  const { page, faults } = await openPage();
  await page.goto(`${console.url}/dead-letters`);
  expect(await seriousFindings(page)).toEqual([]);
  await page.getByRole('link', { name: 'Replay bad-token…' }).click();
  await page.getByRole('heading', { name: 'Replay 8 dead letters' }).waitFor();
  await page.getByText('8 recipients').waitFor();
  expect(await seriousFindings(page)).toEqual([]);
  await page.getByLabel('Rate').fill('4/s');
  await page.getByRole('button', { name: 'Look again' }).click();
  await page.getByText('4/s at most').waitFor();
  expect(sandbox.journal.accepted.length).toBe(before);
  await page.getByRole('button', { name: 'Replay 8 dead letters' }).click();
  await page.getByRole('button', { name: 'Stop' }).waitFor();
  expect(await seriousFindings(page)).toEqual([]);
  await page.getByText('8 of 8 replayed').waitFor(); // the page refreshes itself
  await page.getByRole('link', { name: 'The audit' }).waitFor();
  await waitFor(() => expect(sandbox.journal.accepted.length).toBe(before + 8));
  const tokens = sandbox.journal.accepted.slice(before).map(({ token }) => token);
  expect(tokens.toSorted()).toEqual(refused.map(({ token }) => token).toSorted());

  await page.goto(`${console.url}/dead-letters`);
  await page.getByText('1 dead letter', { exact: true }).waitFor();
  await page.getByRole('link', { name: 'other', exact: true }).click();
  await page.getByText('Find out why before you replay').waitFor();
  expect(await seriousFindings(page)).toEqual([]);
  expect(faults).toEqual([]);
});
