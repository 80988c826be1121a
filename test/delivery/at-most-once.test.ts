import { expect, it } from 'vitest';
import { readProgress } from '../../src/delivery/context.ts';
import type { Provider } from '../../src/providers/provider.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { lockOf, openBench } from './support.ts';

/** Everything that a job's progress was, in turn, under AT_MOST_ONCE. */
function recordSaves() {
  const saved: unknown[] = [];
  return { saved, lock: lockOf((progress) => Promise.resolve(saved.push(structuredClone(progress)) > 0)) };
}

it('notes each device that is still being sent to, also when another one has been acknowledged', async () => {
  const { run, sandbox } = await openBench();
  const [phone, slow] = [makeDevice('apns'), makeDevice('fcm')];
  sandbox.fcm.script(slow.token, [{ kind: 'accept', delayMs: 500 }]);
  const { saved, lock } = recordSaves();
  const notification = makeNotification({ devices: [phone, slow] });
  const { outcome, progress } = await run(notification, readProgress(0), { lock, atMostOnce: true });
  expect(outcome).toEqual({ kind: 'delivered' });
  expect(progress.trying).toBeUndefined();
  expect(saved).toMatchObject([
    { devices: {}, trying: ['apns#0', 'fcm#1'] },
    { devices: { 'apns#0': 'delivered' }, trying: ['fcm#1'] },
  ]);

  // Its worker ended just after that: the other device may have been alerted.
  const next = await run(notification, readProgress(saved.at(-1)), { lock, atMostOnce: true });
  expect(next.progress.devices).toEqual({ 'apns#0': 'delivered', 'fcm#1': 'ambiguous' });
  expect(sandbox.journal.accepted).toHaveLength(2);
});

it('does not hold a device for lost that was certainly not alerted, while another one is under way', async () => {
  const { run, sandbox } = await openBench();
  const [busy, slow] = [makeDevice('apns'), makeDevice('fcm')];
  sandbox.apns.script(busy.token, [{ kind: 'refuse', status: 429, reason: 'TooManyRequests' }]);
  sandbox.fcm.script(slow.token, [{ kind: 'accept', delayMs: 500 }]);
  const { saved, lock } = recordSaves();
  await run(makeNotification({ devices: [busy, slow] }), readProgress(0), { lock, atMostOnce: true });
  expect(saved.at(-1)).toMatchObject({ devices: {}, trying: ['fcm#1'] });
});

it('counts a client that throws as an answer that leaves it open, and loses none of the others', async () => {
  const { run, parts, sandbox } = await openBench();
  const real = parts.providers.get('fcm');
  if (real === undefined) throw new Error('expected a provider for fcm');
  const fcm: Provider = { ...real, send: () => Promise.reject(new TypeError('unforeseen')) };
  const providers: typeof parts.providers = {
    get: (account) => (account === 'fcm' ? fcm : parts.providers.get(account)),
  };
  const overrides = { providers, atMostOnce: true };
  const { progress } = await run(
    makeNotification({ devices: [makeDevice('apns'), makeDevice('fcm')] }),
    readProgress(0),
    overrides,
  );
  expect(progress.devices).toEqual({ 'apns#0': 'delivered', 'fcm#1': 'ambiguous' });
  expect(progress.attempts).toMatchObject([{ device: 'fcm#1', error: 'unexpected-error: unforeseen' }]);
  expect(sandbox.journal.accepted).toHaveLength(1);
});

it('tells what may have been alerted also where the rest has expired meanwhile', async () => {
  const { run } = await openBench();
  const devices = [makeDevice('apns'), makeDevice('apns')];
  const notification = makeNotification({ devices, expiresAt: Date.now() - 1 });
  const { outcome } = await run(notification, readProgress({ trying: ['apns#0'] }), { atMostOnce: true });
  expect(outcome).toMatchObject({ kind: 'dead-letter', reason: 'ambiguous' });
});

it('sends nothing that Redis would not note, gives the slot back, and tries again', async () => {
  const { run, sandbox, limiter } = await openBench({ platforms: ['apns'] });
  const refused = lockOf(() => Promise.reject(new Error('OOM command not allowed when used memory > maxmemory')));
  const notification = makeNotification();
  const first = await run(notification, readProgress(0), { lock: refused, atMostOnce: true });
  expect(first.outcome).toMatchObject({ kind: 'deferred', code: 'not-noted', waitMs: 1_000 });
  expect(sandbox.journal.all).toEqual([]);
  expect((await limiter.inspect(notification.recipientId)).sent).toEqual([]);
  const second = await run(notification, first.progress, { atMostOnce: true });
  expect(second.outcome).toEqual({ kind: 'delivered' });
});

it('tries again what certainly was not alerted', async () => {
  const { run, sandbox } = await openBench();
  const busy = makeDevice();
  sandbox.apns.script(busy.token, [{ kind: 'refuse', status: 503, reason: 'ServiceUnavailable' }]);
  const notification = makeNotification({ devices: [busy] });
  const first = await run(notification, readProgress(0), { atMostOnce: true });
  expect(first.outcome).toMatchObject({ kind: 'retried' });
  const second = await run(notification, readProgress(first.progress), { atMostOnce: true });
  expect(second.outcome).toEqual({ kind: 'delivered' });
});

it('does not send again what was under way when our own code failed', async () => {
  const { run, sandbox } = await openBench();
  const fail = () => Promise.reject(new TypeError('unforeseen'));
  const notification = makeNotification();
  const first = await run(notification, readProgress(0), { atMostOnce: true, onReply: fail });
  expect(first.outcome).toMatchObject({ kind: 'retried', code: 'unexpected-error' });
  const second = await run(notification, readProgress(first.progress), { atMostOnce: true });
  expect(second.outcome).toMatchObject({ kind: 'dead-letter', reason: 'ambiguous' });
  expect(sandbox.journal.accepted).toHaveLength(1);
});
