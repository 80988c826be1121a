import { describe, expect, it } from 'vitest';
import { recipientKeys } from '../../src/limiter/redis/keys.ts';
import { recipientId } from './support.ts';
import { DAY_MS, open } from './waiting-bench.ts';

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

  it.each([
    ['missed', 100, { renew: true }],
    ['canceled, and its job comes at the slot', 3_000, {}],
    ['canceled, and its job comes late', 3_500, {}],
  ])('says that its slot is free again, so that the line can move: %s', async (_, ms, more) => {
    const { ask, join, clock, start, cancel, limiter, reserved } = open();
    if (ms > 100) await ask('first');
    await ask('old', { enqueuedAt: 1, ...join('latest', { at: 1 }) });
    await ask('next');
    if (ms === 100) await ask('new', { enqueuedAt: 2, ...join('latest', { at: 2 }) });
    else await cancel('old', 1);
    clock.now = start + ms;
    const ended = await ask('old', { enqueuedAt: 1, ...more, ...join('latest', { at: 1 }) });
    expect(ended).toMatchObject({ kind: 'ended', gaveBackSlot: true });
    await limiter.moveUp(recipientId);
    expect(await reserved()).toEqual(ms === 100 ? ['next/0', 'new/0'] : ['next/0']);
    expect((await limiter.inspect(recipientId)).reserved[0]?.at).toBe(
      Math.max(clock.now, ms > 100 ? start + 3_000 : 0),
    );
    const again = await ask('old', { enqueuedAt: 1, ...more, ...join('latest', { at: 1 }) });
    expect(again).toMatchObject({ kind: 'ended', gaveBackSlot: false });
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
  it('the first goes at once, the next waits, and what is blocked after it waits for it', async () => {
    const { ask, join, clock, start, reserved } = open();
    const digest = join('digest');
    expect(await ask('1', digest)).not.toHaveProperty('digest');
    expect(await ask('2', digest)).toMatchObject({ kind: 'reserved', at: start + 3_000 });
    expect(await ask('3', digest)).toMatchObject({ kind: 'reserved', at: start + 5_000 }); // after its leader
    expect(await ask('4', digest)).toMatchObject({ kind: 'reserved', at: start + 5_000 });
    expect(await ask('4', digest)).toMatchObject({ kind: 'reserved', at: start + 5_000 }); // its worker died: the same answer
    expect(await reserved()).toEqual(['2/0']);
    clock.now = start + 3_000;
    const sent = { kind: 'admitted', at: start + 3_000, digest: { count: 3, own: true } };
    expect(await ask('2', digest)).toMatchObject(sent);
    expect(await ask('2', digest)).toMatchObject({ ...sent, repeated: true });
    expect(await ask('5', digest)).toMatchObject({ kind: 'reserved' });
    clock.now = start + 5_000;
    for (const part of ['3', '4']) expect(await ask(part, digest)).toMatchObject({ how: 'merged', by: '2' });
  });

  it('a full one goes as it is, and the next one begins', async () => {
    const { ask, join, clock, start } = open();
    const digest = join('digest', { max: 2 });
    for (const name of ['1', '2', '3']) await ask(name, digest);
    expect(await ask('4', digest)).toMatchObject({ kind: 'reserved', at: start + 6_000 });
    expect(await ask('5', digest)).toMatchObject({ kind: 'reserved', at: start + 8_000 });
    clock.now = start + 3_000;
    expect(await ask('2', digest)).toMatchObject({ kind: 'admitted', digest: { count: 2, own: true } });
    clock.now = start + 6_000;
    expect(await ask('3', digest)).toMatchObject({ kind: 'ended', how: 'merged', by: '2' });
    expect(await ask('4', digest)).toMatchObject({ kind: 'admitted', digest: { count: 2, own: true } });
    expect(await ask('5', digest)).toMatchObject({ kind: 'ended', how: 'merged', by: '4' });
  });

  it.each([undefined, 10_001])('takes nothing that would expire with it too early: %s', async (expiresInMs) => {
    const { ask, join, clock, start } = open();
    await ask('1', join('digest'));
    await ask('2', join('digest', { expires: start + 10_000 }));
    const later = join('digest', { expires: expiresInMs && start + expiresInMs });
    expect(await ask('3', later)).toMatchObject({ kind: 'reserved', at: start + 6_000 });
    expect(await ask('4', join('digest', { expires: start + 9_000 }))).toMatchObject({ at: start + 8_000 });
    clock.now = start + 3_000;
    expect(await ask('2', join('digest'))).toMatchObject({ kind: 'admitted', digest: { count: 1, own: true } });
  });

  it('does not count a part that expires before it goes', async () => {
    const { ask, join, clock, start, block } = open();
    await ask('1', join('digest'));
    await ask('2', join('digest'));
    await ask('3', join('digest', { expires: start + 4_000 }));
    await ask('4', join('digest'));
    await block(5_000);
    clock.now = start + 5_000;
    expect(await ask('2', join('digest'))).toMatchObject({ kind: 'admitted', digest: { count: 2, own: true } });
  });

  it.each(['2', '3', '4'])('goes on without %s, whichever leaves it', async (leaving) => {
    const { ask, join, clock, start, release, reserved } = open();
    const digest = join('digest');
    for (const name of ['1', '2', '3', '4']) await ask(name, digest);
    const left = ['2', '3', '4'].filter((name) => name !== leaving);
    const [leader = '', part = ''] = left;
    const released = await release(leaving, { how: 'dead' });
    if (leaving === '2') expect(released).toEqual({ hadSlot: false, leader: { id: '3/0', at: start + 3_000 } });
    else expect(released).toEqual({ hadSlot: false });
    expect(await reserved()).toEqual([`${leader}/0`]);
    clock.now = start + 3_000;
    expect(await ask(leader, digest)).toMatchObject({ kind: 'admitted', digest: { count: 2, own: true } });
    expect(await ask(part, digest)).toMatchObject({ kind: 'ended', how: 'merged', by: leader });
    expect(await ask(leaving, digest)).toMatchObject({ kind: 'reserved' }); // its replay is no part of what has gone
  });

  it('the part that expires last leads it: none of the others expires with it too early', async () => {
    const { ask, join, release, start } = open();
    await ask('1', join('digest'));
    await ask('2', join('digest'));
    await ask('3', join('digest', { expires: start + 60_000 }));
    await ask('4', join('digest'));
    expect(await release('2')).toMatchObject({ leader: { id: '4/0' } });
    expect(await release('4')).toMatchObject({ leader: { id: '3/0' } });
    expect(await release('3')).toEqual({ hadSlot: true });
  });

  it('a part goes in the place of a leader that has not come for two seconds: its job may be gone', async () => {
    const { ask, join, clock, start } = open();
    const digest = join('digest');
    for (const name of ['1', '2', '3', '4']) await ask(name, digest);
    clock.now = start + 4_999;
    expect(await ask('3', digest)).toMatchObject({ kind: 'reserved', at: clock.now + 2_000 });
    clock.now = start + 5_000;
    expect(await ask('3', digest)).toMatchObject({ kind: 'admitted', digest: { count: 2, own: true } });
    expect(await ask('4', digest)).toMatchObject({ kind: 'ended', how: 'merged', by: '3' });
    expect(await ask('2', digest)).toMatchObject({ kind: 'reserved' }); // it comes after all, and is not lost
  });

  it('a week without workers loses none of it', async () => {
    const { ask, join, clock } = open();
    const digest = join('digest');
    for (const name of ['1', '2', '3', '4']) await ask(name, digest);
    clock.now += 7 * DAY_MS;
    expect(await ask('3', digest)).toMatchObject({ kind: 'admitted', digest: { count: 2, own: true } });
    clock.now += 3_000;
    expect(await ask('2', digest)).toMatchObject({ kind: 'admitted' });
    expect(await ask('4', digest)).toMatchObject({ kind: 'ended', how: 'merged', by: '3' });
  });

  it.each([2, 366])('a block of %i days loses none of it', async (days) => {
    const { ask, join, clock, block } = open();
    const digest = join('digest');
    for (const name of ['1', '2', '3', '4']) await ask(name, digest);
    await block(days * DAY_MS);
    clock.now += days * DAY_MS;
    expect(await ask('2', digest)).toMatchObject({ kind: 'admitted', digest: { count: 3, own: true } });
    expect(await ask('3', digest)).toMatchObject({ kind: 'ended', how: 'merged', by: '2' });
  });
});

it('the only reservation that a newer one takes over keeps its expiry', async () => {
  const { redis, prefix, ask, join } = open();
  const { reserved } = recipientKeys(prefix, recipientId);
  await ask('1');
  await ask('old', join('latest', { at: 1 }));
  const before = await redis.pexpiretime(reserved);
  await ask('new', join('latest', { at: 2 }));
  expect(before).toBeGreaterThan(0);
  expect(await redis.pexpiretime(reserved)).toBe(before);
});

it('of `latest`, one that was canceled or died makes no older one go without an alert', async () => {
  const { ask, join, cancel, release, limiter } = open();
  for (const [name, leaves] of [
    ['canceled', () => cancel('canceled')],
    ['dead', () => release('dead', { how: 'dead' })],
  ] as const) {
    await limiter.reset(recipientId);
    await ask('1');
    expect(await ask(name, join('latest', { key: name, at: 2 }))).toMatchObject({ kind: 'reserved' });
    await leaves();
    expect(await ask(`older than ${name}`, join('latest', { key: name, at: 1 }))).toMatchObject({ kind: 'reserved' });
  }
});

it('a `latest` that is refused does not supersede the older one, which keeps its slot', async () => {
  const { ask, join, clock, start, reserved } = open();
  await ask('first');
  await ask('old', join('latest', { at: 1 }));
  await ask('other');
  clock.now = start + 6_000;
  expect(await ask('other')).toMatchObject({ kind: 'admitted' }); // `old` is late
  clock.now += 10;
  expect(await ask('new', { ...join('latest', { at: 2 }), maxWaitMs: 1_000 })).toMatchObject({ kind: 'refused' });
  expect(await reserved()).toEqual(['old/0']);
  expect(await ask('old', join('latest', { at: 1 }))).toMatchObject({ kind: 'reserved' });
});

it.each([
  ['in their order', ['3', '4', '5', '6']],
  ['the last one first', ['6', '5', '4', '3']],
])('a digest whose leader is gone for minutes stays one, whichever part comes: %s', async (_, order) => {
  const { ask, join, clock } = open();
  const digest = join('digest');
  for (const name of ['1', '2', ...order.toSorted()]) await ask(name, digest);
  clock.now += 120_000;
  const waiting = new Set(order);
  const counts: unknown[] = [];
  for (let round = 0; round < 60 && waiting.size > 0; round++) {
    for (const name of waiting) {
      const answer = await ask(name, digest);
      if (answer.kind === 'admitted') counts.push(answer.digest?.count);
      if (answer.kind !== 'reserved') waiting.delete(name);
    }
    clock.now += 1_000;
  }
  expect(counts).toEqual([order.length]);
});

describe('a digest that was tried, and alerted nobody', () => {
  it('goes on without its leader, with the parts that have not ended', async () => {
    const { ask, join, clock, start, release, forget, limiter } = open();
    const digest = join('digest');
    for (const name of ['1', '2', '3', '4', '5']) await ask(name, digest);
    clock.now = start + 3_000;
    expect(await ask('2', digest)).toMatchObject({ kind: 'admitted', digest: { count: 4 } });
    await limiter.refund({ recipientId, id: '2/0' });
    await ask('3', digest);
    await forget('3'); // its job has ended as merged
    expect(await release('2', { how: 'unseen' })).toMatchObject({
      leader: { id: '4/0', at: clock.now },
      digest: { count: 2, own: true },
    });
    expect(await ask('5', digest)).toMatchObject({ kind: 'reserved' });
    expect(await ask('4', digest)).toMatchObject({ kind: 'admitted', digest: { count: 2, own: true } });
    expect(await ask('5', digest)).toMatchObject({ kind: 'ended', how: 'merged', by: '4' });
  });

  it.each(['dead', 'ended'] as const)('but not if it may have alerted: %s', async (how) => {
    const { ask, join, clock, start, release } = open();
    const digest = join('digest');
    for (const name of ['1', '2', '3']) await ask(name, digest);
    clock.now = start + 3_000;
    await ask('2', digest);
    expect(await release('2', { how })).toEqual({ hadSlot: false, digest: { count: 2, own: true } });
    expect(await ask('3', digest)).toMatchObject({ kind: 'ended', how: 'merged', by: '2' });
  });

  it('is still that digest if its worker dies just after it became a dead letter, and another comes within a week', async () => {
    const { ask, join, clock, release, limiter } = open();
    const digest = join('digest');
    for (const name of ['1', '2', '3']) await ask(name, digest);
    clock.now += 3_000;
    expect(await ask('2', digest)).toMatchObject({ kind: 'admitted', digest: { count: 2 } });
    await limiter.refund({ recipientId, id: '2/0' });
    expect(await release('2', { how: 'dead' })).toMatchObject({ digest: { count: 2 } });
    clock.now += 7 * DAY_MS;
    const again = await ask('2', { id: '2/1', ...digest });
    expect(again).toMatchObject({ kind: 'admitted', digest: { count: 2, own: true } });
  });
});
