import { expect, it } from 'vitest';
import { readProgress } from '../../src/delivery/progress.ts';
import { passOf, recorded, wokenLateMs } from '../../src/delivery/story.ts';
import { deliver } from '../../src/delivery/deliver.ts';
import { tokenOf } from '../../src/notification/device.ts';
import { MOST_PASSES, readPasses, withPass, type Passes, type StoryPass } from '../../src/notification/story.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { contextOf, none, openBench, type Bench } from './support.ts';

const WORKER = 'web-1:7';

/** One pass, and what is recorded of it. */
async function record({ parts, clock }: Bench, data: unknown, progress = none) {
  const context = contextOf(data, progress);
  const result = await deliver(context, parts);
  const pass = passOf(context, result, { lateMs: undefined, now: clock.now(), worker: WORKER });
  return { pass, progress: recorded(context.progress, pass) };
}

it('has the slot, and what each device answered, the failed ones first', async () => {
  const bench = await openBench();
  const [good, bad] = [makeDevice('fcm'), makeDevice()];
  bench.sandbox.apns.script(bad.token, [{ kind: 'refuse', status: 410, reason: 'Unregistered' }]);
  const notification = makeNotification({ devices: [good, bad] });
  const { pass } = await record(bench, notification);
  const tookMs = expect.any(Number) as number;
  expect(pass).toMatchObject({ worker: WORKER, result: 'delivered', slot: expect.any(Number) as number });
  expect(pass.sends).toEqual([
    { device: 'apns#1', code: 'Unregistered', tookMs },
    { device: 'fcm#0', code: '200', tookMs, accepted: true },
  ]);
  expect(pass.lateMs).toBeGreaterThanOrEqual(0);
  const text = JSON.stringify(pass);
  for (const secret of [...notification.devices.map(tokenOf), 'Room 12', 'Field trip'])
    expect(text).not.toContain(secret);
});

it('has the rule of a wait, its place in line, and the slot until which it is put back', async () => {
  const bench = await openBench({ platforms: ['apns'] });
  for (const id of ['one', 'two']) await record(bench, makeNotification({ id }));
  const { pass, progress } = await record(bench, makeNotification({ id: 'three' }));
  expect(pass).toMatchObject({ result: 'requeued', rule: 'gap', before: 1 });
  expect(pass).not.toHaveProperty('sends');
  const reserved = (await bench.limiter.inspect('teacher-42')).reserved.at(-1);
  expect(Math.abs((pass.until ?? 0) - (reserved?.at ?? 0))).toBeLessThan(3);
  expect(readPasses(JSON.parse(JSON.stringify(progress)))).toEqual({ passes: [pass] });
});

it('has why it is a dead letter, without what is private', async () => {
  const bench = await openBench({ platforms: ['apns'] });
  const device = makeDevice();
  bench.sandbox.apns.script(device.token, [{ kind: 'refuse', status: 400, reason: `No${device.token}` }]);
  const { pass } = await record(bench, makeNotification({ devices: [device] }));
  expect(pass).toMatchObject({ result: 'dead-letter', reason: 'rejected' });
  expect(JSON.stringify(pass)).not.toContain(device.token.slice(0, 16));
});

it('keeps the newest passes, and counts the others', () => {
  const passAt = (at: number): StoryPass => ({ at, worker: WORKER, result: 'requeued' });
  let passes: Passes = {};
  for (let at = 0; at < MOST_PASSES + 7; at++) passes = withPass(passes, passAt(at));
  expect(passes.passes).toHaveLength(MOST_PASSES);
  expect(passes.passes?.[0]).toEqual(passAt(7));
  expect(passes.passesLeftOut).toBe(7);
  expect(readPasses(JSON.parse(JSON.stringify(passes)))).toEqual(passes);
});

it('a progress without passes is read as ever, and a fault in the passes costs nothing else', () => {
  const old = { devices: { 'apns#0': 'delivered' }, attempts: [], tries: 2, asks: 1, requeues: 3 };
  expect(readProgress(old)).toMatchObject(old);
  expect(readPasses(readProgress(old))).toEqual({});
  for (const passes of ['x', 7, null, {}, [1, null, { at: 'x', result: 1 }], [{ at: 1, result: 'a', sends: 'x' }]]) {
    const progress = readProgress({ ...old, passes, passesLeftOut: 'many' });
    expect(progress).toMatchObject(old);
    expect(readPasses(progress).passes ?? []).toEqual([]);
  }
  const known = { at: 1, worker: WORKER, result: 'a-result-of-a-later-version' };
  expect(readPasses({ passes: [{ ...known, more: true }] })).toEqual({ passes: [known] });
});

it('knows how late a worker came, also after an operator has moved the notification', async () => {
  const context = contextOf(makeNotification());
  const lateMs = (dueAt: number | undefined, at: number, movedTo?: number) =>
    wokenLateMs(context, dueAt, at, {
      history: { write: () => Promise.resolve() },
      worker: WORKER,
      movedTo: () => Promise.resolve(movedTo),
    });
  expect(await lateMs(undefined, 1_000)).toBeUndefined();
  expect(await lateMs(1_000, 990)).toBeUndefined();
  expect(await lateMs(1_000, 1_040)).toBe(40);
  expect(await lateMs(1_000, 9_000)).toBe(8_000);
  expect(await lateMs(1_000, 9_000, 8_970)).toBe(30);
  expect(await lateMs(1_000, 9_000, 500)).toBe(8_000);
});
