import { describe, expect, it } from 'vitest';
import { createCanceller } from '../../src/limiter/redis/canceller.ts';
import { recipientKeys } from '../../src/limiter/redis/keys.ts';
import { createWaitingLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import type { Join, WaitingAsk } from '../../src/limiter/limiter.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { onClock } from '../support/redis-clock.ts';
import { AHEAD_MS, readRecipient, recipientId } from './support.ts';

const POLICY = { rules: [{ max: 5, perMs: 60_000 }], minGapMs: 3_000 };
const MESSAGES = { rules: [{ max: 2, perMs: 60_000 }], minGapMs: 0 };

function open() {
  const clock = { now: Date.now() + AHEAD_MS };
  const start = clock.now;
  const redis = onClock(connectRedis(), () => clock.now);
  const prefix = testPrefix();
  const limiter = createWaitingLimiter({ redis, policy: POLICY, categories: { messages: MESSAGES }, prefix });
  const canceller = createCanceller({ redis, prefix });
  const ask = (name: string, more: Partial<WaitingAsk> = {}) =>
    limiter.admit({ recipientId, id: `${name}/0`, ...more });
  const cancel = async (...names: string[]) =>
    canceller.cancel(
      recipientId,
      names.map((jobId) => ({ jobId, asks: 0, keepMs: 1_000 })),
    );
  const join = (kind: Join['kind'], more: Partial<Join> = {}): { join: Join } => ({
    join: { kind, key: 'thread', at: clock.now, max: 100, ...more },
  });
  const reserved = async () => (await readRecipient(redis, prefix)).reserved.slots.map(([id]) => id);
  return { redis, prefix, clock, start, limiter, ask, cancel, join, reserved };
}

describe('latest', () => {
  it('the newest goes in the slot of the oldest', async () => {
    const { ask, join, clock, start, reserved } = open();
    expect(await ask('first', join('latest', { at: 0 }))).toMatchObject({ kind: 'admitted' });
    expect(await ask('old', join('latest', { at: 1 }))).toMatchObject({ kind: 'reserved', at: start + 3_000 });
    expect(await ask('other')).toMatchObject({ kind: 'reserved', at: start + 6_000 });
    expect(await ask('new', join('latest', { at: 2 }))).toMatchObject({ kind: 'reserved', at: start + 3_000 });
    expect(await reserved()).toEqual(['new/0', 'other/0']);
    clock.now = start + 3_000;
    expect(await ask('old', join('latest', { at: 1 }))).toMatchObject({ kind: 'ended', how: 'superseded', by: 'new' });
    expect(await ask('new', join('latest', { at: 2 }))).toMatchObject({ kind: 'admitted', at: start + 3_000 });
    expect(await ask('later', join('latest', { at: 3 }))).toMatchObject({ kind: 'reserved', at: start + 9_000 });
  });

  it('one that comes late from the queue is older than the one that waits', async () => {
    const { ask, join } = open();
    await ask('first');
    await ask('new', join('latest', { at: 2 }));
    expect(await ask('old', join('latest', { at: 1 }))).toMatchObject({ kind: 'ended', how: 'superseded', by: 'new' });
  });

  it('an older one that is tried again does not go after a newer one', async () => {
    const { ask, join, limiter, clock } = open();
    await ask('old', join('latest', { at: 1 }));
    await limiter.refund({ recipientId, id: 'old/0' });
    expect(await ask('new', join('latest', { at: 2 }))).toMatchObject({ kind: 'admitted' });
    clock.now += 3_000;
    const again = await ask('old', { id: 'old/1', ...join('latest', { at: 1 }) });
    expect(again).toMatchObject({ kind: 'ended', how: 'superseded', by: 'new' });
  });

  it('an older one that missed its slot gives way to a newer one that was sent since', async () => {
    const { ask, join, limiter, clock, start } = open();
    await ask('old', join('latest', { at: 1 }));
    clock.now = start + 3_000;
    expect(await ask('new', join('latest', { at: 2 }))).toMatchObject({ kind: 'admitted', at: start + 3_000 });
    const again = await ask('old', { renew: true, ...join('latest', { at: 1 }) });
    expect(again).toMatchObject({ kind: 'ended', how: 'superseded', by: 'new' });
    expect(await limiter.inspect(recipientId)).toMatchObject({ sent: [{ at: start + 3_000 }], reserved: [] });
  });

  it('and to one that waits: its slot is free again', async () => {
    const { ask, join, limiter, clock, start } = open();
    await ask('old', join('latest', { at: 1 }));
    await ask('new', join('latest', { at: 2 }));
    clock.now = start + 100;
    const again = await ask('old', { renew: true, ...join('latest', { at: 1 }) });
    expect(again).toMatchObject({ kind: 'ended', how: 'superseded', by: 'new' });
    expect((await limiter.inspect(recipientId)).sent).toEqual([]);
    clock.now = start + 3_000;
    expect(await ask('new', join('latest', { at: 2 }))).toMatchObject({ kind: 'admitted' });
  });

  it('the newest one that missed its slot goes in another one', async () => {
    const { ask, join, clock, start } = open();
    await ask('new', join('latest', { at: 2 }));
    clock.now = start + 100;
    expect(await ask('new', { renew: true, ...join('latest', { at: 2 }) })).toMatchObject({
      kind: 'admitted',
      at: start + 100,
    });
  });

  it.each([0, 2_000])(
    'leaves the older one where the newer one would be refused in its slot: after %i ms',
    async (ms) => {
      const { ask, join, clock, start, reserved } = open();
      await ask('first');
      await ask('old', join('latest', { at: 1 }));
      clock.now = start + ms;
      expect(await ask('new', { ...join('latest', { at: 2 }), maxWaitMs: 100 })).toMatchObject({ kind: 'refused' });
      expect(await reserved()).toEqual(['old/0']);
      expect(await ask('old', join('latest', { at: 1 }))).toMatchObject({ kind: 'reserved', at: start + 3_000 });
    },
  );

  it('the newer one goes in the slot of the older one when that comes next, though it would not wait', async () => {
    const { ask, join, clock, start } = open();
    await ask('first');
    await ask('old', join('latest', { at: 1 }));
    clock.now = start + 2_880;
    expect(await ask('new', { ...join('latest', { at: 2 }), maxWaitMs: 0 })).toMatchObject({
      kind: 'admitted',
      at: start + 3_000,
    });
    expect(await ask('old', join('latest', { at: 1 }))).toMatchObject({ kind: 'ended', how: 'superseded', by: 'new' });
  });

  it('takes over a slot that a category holds back, too', async () => {
    const { ask, join, start } = open();
    for (const name of ['1', '2']) await ask(name, { category: 'messages' });
    const more = { category: 'messages', ...join('latest', { at: 1 }) };
    expect(await ask('old', more)).toMatchObject({ kind: 'reserved', at: start + 60_000 });
    const newer = { category: 'messages', ...join('latest', { at: 2 }) };
    expect(await ask('new', newer)).toMatchObject({ kind: 'reserved', at: start + 60_000 });
    expect(await ask('new', newer)).toMatchObject({ kind: 'reserved', at: start + 60_000 });
  });
});

describe('digest', () => {
  it('the first goes at once, the next waits, and what is blocked after it joins it', async () => {
    const { ask, join, clock, start, reserved } = open();
    const digest = join('digest');
    expect(await ask('1', digest)).not.toHaveProperty('digest');
    expect(await ask('2', digest)).toMatchObject({ kind: 'reserved', at: start + 3_000 });
    expect(await ask('3', digest)).toMatchObject({ kind: 'ended', how: 'merged', by: '2' });
    expect(await ask('4', digest)).toMatchObject({ kind: 'ended', how: 'merged', by: '2' });
    expect(await ask('4', digest)).toMatchObject({ kind: 'ended', how: 'merged', by: '2' }); // its worker died: the same answer
    expect(await reserved()).toEqual(['2/0']);
    clock.now = start + 3_000;
    const sent = { kind: 'admitted', at: start + 3_000, digest: { count: 3, own: true } };
    expect(await ask('2', digest)).toMatchObject(sent);
    expect(await ask('2', digest)).toMatchObject({ ...sent, repeated: true });
    expect(await ask('5', digest)).toMatchObject({ kind: 'reserved' });
    expect(await ask('3', digest)).toMatchObject({ kind: 'ended', how: 'merged', by: '2' });
  });

  it('a full one goes as it is, and the next one begins', async () => {
    const { ask, join, clock, start } = open();
    const digest = join('digest', { max: 2 });
    for (const name of ['1', '2', '3']) await ask(name, digest);
    expect(await ask('4', digest)).toMatchObject({ kind: 'reserved', at: start + 6_000 });
    expect(await ask('5', digest)).toMatchObject({ kind: 'ended', by: '4' });
    clock.now = start + 3_000;
    expect(await ask('2', digest)).toMatchObject({ kind: 'admitted', digest: { count: 2, own: true } });
    clock.now = start + 6_000;
    expect(await ask('4', digest)).toMatchObject({ kind: 'admitted', digest: { count: 2, own: true } });
  });

  it.each([undefined, 10_001])('takes nothing that would expire with it too early: %s', async (expiresInMs) => {
    const { ask, join, clock, start } = open();
    await ask('1', join('digest'));
    await ask('2', join('digest', { expires: start + 10_000 }));
    const later = join('digest', { expires: expiresInMs && start + expiresInMs });
    expect(await ask('3', later)).toMatchObject({ kind: 'reserved', at: start + 6_000 });
    expect(await ask('4', join('digest', { expires: start + 9_000 }))).toMatchObject({ kind: 'ended', by: '3' });
    clock.now = start + 3_000;
    expect(await ask('2', join('digest'))).toMatchObject({ kind: 'admitted', digest: { count: 1, own: true } });
  });

  it('nothing joins one whose holder has not come for a minute; what joined it before is not lost', async () => {
    const { ask, join, clock, start } = open();
    const digest = join('digest');
    for (const name of ['1', '2', '3']) await ask(name, digest);
    clock.now = start + 3_000 + 60_001;
    expect(await ask('4', digest)).toMatchObject({ kind: 'admitted' });
    expect(await ask('5', digest)).toMatchObject({ kind: 'reserved', at: clock.now + 3_000 });
    expect(await ask('2', digest)).toMatchObject({ kind: 'reserved', at: clock.now + 6_000 });
    clock.now += 6_000;
    expect(await ask('2', digest)).toMatchObject({ kind: 'admitted', digest: { count: 2, own: true } });
  });
});

describe('cancel', () => {
  it('what is canceled is not admitted, and gives its slot back', async () => {
    const { ask, cancel, limiter, clock, start, reserved } = open();
    for (const name of ['1', '2', '3']) await ask(name);
    expect(await cancel('2')).toEqual([{ canceled: true, wake: ['2'] }]);
    expect(await cancel('2')).toEqual([{ canceled: true, wake: ['2'] }]);
    expect(await ask('2')).toMatchObject({ kind: 'ended', how: 'canceled', gaveBackSlot: true });
    expect(await ask('2')).toMatchObject({ kind: 'ended', how: 'canceled', gaveBackSlot: false });
    expect(await reserved()).toEqual(['3/0']);
    await limiter.moveUp(recipientId, {});
    clock.now = start + 3_000;
    expect(await ask('3')).toMatchObject({ kind: 'admitted', at: start + 3_000 });
  });

  it('also what no worker has asked for yet, and a retry', async () => {
    const { ask, cancel, limiter } = open();
    expect(await cancel('new')).toEqual([{ canceled: true, wake: ['new'] }]);
    expect(await ask('new')).toMatchObject({ kind: 'ended', how: 'canceled', gaveBackSlot: false });
    await ask('1');
    await limiter.refund({ recipientId, id: '1/0' });
    expect(await cancel('1')).toEqual([{ canceled: true, wake: ['1'] }]);
    expect(await ask('1', { id: '1/1' })).toMatchObject({ kind: 'ended', how: 'canceled' });
  });

  it('is too late once a slot was given, to whichever of its asks', async () => {
    const { ask, cancel, clock } = open();
    await ask('1');
    expect(await cancel('1')).toEqual([{ canceled: false, wake: [] }]);
    clock.now += 3_000;
    await ask('2', { id: '2/2' });
    expect(await cancel('2')).toEqual([{ canceled: false, wake: [] }]);
  });

  it('is too late for what goes without a slot, and for what was superseded', async () => {
    const { ask, cancel, join } = open();
    await ask('1');
    expect(await ask('silent', { maxWaitMs: 0, claim: true })).toMatchObject({ kind: 'refused' });
    expect(await ask('dropped', { maxWaitMs: 0 })).toMatchObject({ kind: 'refused' });
    await ask('old', join('latest', { at: 1 }));
    await ask('new', join('latest', { at: 2 }));
    const answers = await cancel('silent', 'dropped', 'old', 'new');
    expect(answers.map(({ canceled }) => canceled)).toEqual([false, true, false, true]);
    expect(await ask('silent', { maxWaitMs: 0, claim: true })).toMatchObject({ kind: 'refused' });
  });

  it('takes one notification out of a digest, and the last one ends it', async () => {
    const { ask, cancel, join, clock, start } = open();
    const digest = join('digest');
    for (const name of ['1', '2', '3', '4']) await ask(name, digest);
    expect(await cancel('3')).toEqual([{ canceled: true, wake: [] }]);
    expect(await cancel('3')).toEqual([{ canceled: true, wake: ['3'] }]);
    expect(await cancel('2')).toEqual([{ canceled: true, wake: [] }]);
    expect(await cancel('2')).toEqual([{ canceled: true, wake: [] }]);
    clock.now = start + 3_000;
    expect(await ask('2', digest)).toMatchObject({ kind: 'admitted', digest: { count: 1, own: false } });
    expect(await cancel('4', '2')).toEqual([
      { canceled: false, wake: [] },
      { canceled: true, wake: [] },
    ]);

    await ask('5', digest);
    await ask('6', digest);
    expect(await cancel('5', '6')).toEqual([
      { canceled: true, wake: [] },
      { canceled: true, wake: ['5'] },
    ]);
    expect(await ask('5', digest)).toMatchObject({ kind: 'ended', how: 'canceled', gaveBackSlot: true });
    expect(await ask('7', digest)).toMatchObject({ kind: 'reserved' });
  });
});

it('leaves nothing for ever, and forgets what ended a day ago', async () => {
  const { redis, prefix, ask, cancel, join, clock, start } = open();
  const { waiting } = recipientKeys(prefix, recipientId);
  await ask('first');
  await ask('waits', join('digest', { max: 1_000 }));
  for (let name = 0; name < 150; name++) await ask(`m${name}`, join('digest', { max: 1_000 }));
  expect(await redis.hlen(waiting)).toBe(153);
  expect(await redis.pttl(waiting)).toBeGreaterThan(86_000_000);
  clock.now = start + 2 * 86_400_000;
  await cancel('x');
  expect((await redis.hkeys(waiting)).sort()).toEqual(['end:x', 'pruneAt']);
});
