import { describe, expect, it } from 'vitest';
import { recipientKeys } from '../../src/limiter/redis/keys.ts';
import { ownRedis } from '../support/own-redis.ts';
import { connectRedis } from '../support/redis.ts';
import { recipientId } from './support.ts';
import { DAY_MS, open } from './waiting-bench.ts';

describe('an id that is used again', () => {
  const again = { enqueuedAt: 2 };
  const before = { enqueuedAt: 1 };

  it('is a new notification, however the one before ended', async () => {
    const { ask, join, cancel, clock } = open();
    await ask('first');
    const digest = join('digest');
    for (const name of ['leader', 'part']) await ask(name, { ...digest, ...before });
    await ask('canceled', before);
    await cancel('canceled', 1);
    await ask('old', { ...join('latest', { at: 1 }), ...before });
    await ask('new', { ...join('latest', { at: 2 }), ...before });
    clock.now += 6_000;
    expect(await ask('leader', { ...digest, ...before })).toMatchObject({ kind: 'admitted', digest: { count: 2 } });
    expect(await ask('canceled', before)).toMatchObject({ kind: 'ended', how: 'canceled' });
    clock.now += 3_600_000;
    for (const name of ['part', 'canceled', 'old', 'leader']) {
      clock.now += 60_000;
      const answer = await ask(name, { ...digest, ...again });
      expect(answer).toMatchObject({ kind: 'admitted' });
      expect(answer).not.toHaveProperty('digest');
    }
  });

  it('but a replay is the same one: what was canceled or merged stays so', async () => {
    const { ask, join, cancel, release, clock } = open();
    await ask('first');
    for (const name of ['leader', 'part']) await ask(name, { ...join('digest'), ...before });
    await cancel('dead', 1);
    await release('dead', { ...before, how: 'dead' });
    clock.now += 3_000;
    await ask('leader', { ...join('digest'), ...before });
    await release('part', { ...before, how: 'dead' });
    expect(await ask('dead#r1', before)).toMatchObject({ kind: 'ended', how: 'canceled' });
    expect(await ask('dead#d1#r2', before)).toMatchObject({ kind: 'ended', how: 'canceled' });
    expect(await ask('part#r1', { ...join('digest'), ...before })).toMatchObject({ kind: 'ended', how: 'merged' });
    clock.now += 3_000;
    expect(await ask('dead#r1', again)).toMatchObject({ kind: 'admitted' });
  });
});

it.each(['canceled', 'merged'])('what was %s stays so as a replay that dies and is replayed again', async (how) => {
  const { ask, cancel, release, clock, join } = open();
  const [digest, born] = [join('digest'), { enqueuedAt: 5 }];
  await ask('first');
  await release('X', { ...born, how: 'dead' });
  await ask('leader', digest);
  expect(await ask('X#r1', { ...born, ...digest })).toMatchObject({ kind: 'reserved' });
  if (how === 'canceled') expect(await cancel('X#r1', 5)).toMatchObject({ canceled: true });
  clock.now += 3_000;
  await ask('leader', digest);
  await release('X#r1', { ...born, how: 'dead' }); // its workers died too often
  clock.now += 60_000;
  expect(await ask('X#r2', { ...born, ...digest })).toMatchObject({ kind: 'ended', how });
});

describe('cancel', () => {
  it('what is canceled is not admitted, and gives its slot back', async () => {
    const { ask, cancel, limiter, clock, start, reserved } = open();
    for (const name of ['1', '2', '3']) await ask(name);
    expect(await cancel('2')).toEqual({ canceled: true });
    expect(await cancel('2')).toEqual({ canceled: true });
    expect(await ask('2')).toMatchObject({ kind: 'ended', how: 'canceled', gaveBackSlot: true });
    expect(await ask('2')).toMatchObject({ kind: 'ended', how: 'canceled', gaveBackSlot: false });
    expect(await reserved()).toEqual(['3/0']);
    await limiter.moveUp(recipientId, {});
    clock.now = start + 3_000;
    expect(await ask('3')).toMatchObject({ kind: 'admitted', at: start + 3_000 });
  });

  it('also what no worker has asked for yet, and a retry', async () => {
    const { ask, cancel, limiter } = open();
    expect(await cancel('new')).toEqual({ canceled: true });
    expect(await ask('new')).toMatchObject({ kind: 'ended', how: 'canceled', gaveBackSlot: false });
    await ask('1');
    await limiter.refund({ recipientId, id: '1/0' });
    expect(await cancel('1')).toEqual({ canceled: true });
    expect(await ask('1', { id: '1/1' })).toMatchObject({ kind: 'ended', how: 'canceled' });
  });

  it.each(['nächste', 'x'.repeat(200), 'with space'])('also one whose id is stored as a digest: %s', async (name) => {
    const { ask, cancel, join, clock } = open();
    await ask('1');
    await ask(name, { enqueuedAt: 1 });
    expect(await cancel(name, 1)).toEqual({ canceled: true });
    expect(await ask(name, { enqueuedAt: 1 })).toMatchObject({ kind: 'ended', how: 'canceled' });
    await ask('leads', { ...join('digest'), enqueuedAt: 1 });
    await ask(`${name}!`, { ...join('digest'), enqueuedAt: 1 });
    await ask('third', { ...join('digest'), enqueuedAt: 1 });
    expect(await cancel('leads', 1)).toMatchObject({ canceled: true });
    clock.now += 10_000;
    const answer = await ask(`${name}!`, { ...join('digest'), enqueuedAt: 1 });
    expect(answer).toMatchObject({ kind: 'admitted', digest: { count: 2, own: true } });
  });

  it('is too late once a slot was given, to whichever of its asks', async () => {
    const { ask, cancel, clock } = open();
    await ask('1');
    expect(await cancel('1')).toEqual({ canceled: false });
    clock.now += 3_000;
    await ask('2', { id: '2/2' });
    expect(await cancel('2')).toEqual({ canceled: false });
  });

  it('is too late for what goes without a slot, and for what was superseded', async () => {
    const { ask, cancel, join } = open();
    await ask('1');
    expect(await ask('silent', { maxWaitMs: 0, claim: true })).toMatchObject({ kind: 'refused' });
    expect(await ask('dropped', { maxWaitMs: 0 })).toMatchObject({ kind: 'refused' });
    await ask('old', join('latest', { at: 1 }));
    await ask('new', join('latest', { at: 2 }));
    const answers = {
      silent: { canceled: false },
      dropped: { canceled: true },
      old: { canceled: false, isReplaced: true },
      new: { canceled: true },
    };
    for (const [name, answer] of Object.entries(answers)) expect(await cancel(name)).toEqual(answer);
    expect(await ask('silent', { maxWaitMs: 0, claim: true })).toMatchObject({ kind: 'refused' });
  });

  it('is in time for what was refused once, and then waits after all', async () => {
    const { ask, cancel } = open();
    await ask('1');
    expect(await ask('high', { maxWaitMs: 0, claim: true })).toMatchObject({ kind: 'refused' });
    expect(await ask('high', { goesFirst: true })).toMatchObject({ kind: 'reserved' });
    expect(await cancel('high')).toEqual({ canceled: true });
  });

  it('takes one notification out of a digest, its leader too, and the last one ends it', async () => {
    const { ask, cancel, join, clock, start, reserved } = open();
    const digest = join('digest');
    for (const name of ['1', '2', '3', '4', '5']) await ask(name, digest);
    expect(await cancel('3')).toEqual({ canceled: true });
    expect(await cancel('2')).toEqual({ canceled: true, leader: { id: '4/0', at: start + 3_000 } });
    for (const name of ['2', '3'])
      expect(await ask(name, digest)).toMatchObject({ kind: 'ended', how: 'canceled', gaveBackSlot: false });
    clock.now = start + 3_000;
    expect(await ask('4', digest)).toMatchObject({ kind: 'admitted', digest: { count: 2, own: true } });
    expect(await cancel('4')).toEqual({ canceled: false });
    expect(await cancel('5')).toEqual({ canceled: false, isReplaced: true });

    await ask('6', digest);
    await ask('7', digest);
    expect(await cancel('6')).toMatchObject({ canceled: true, leader: { id: '7/0' } });
    expect(await cancel('7')).toEqual({ canceled: true });
    expect(await ask('7', digest)).toMatchObject({ kind: 'ended', how: 'canceled', gaveBackSlot: true });
    expect(await reserved()).toEqual([]);
    expect(await ask('8', digest)).toMatchObject({ kind: 'reserved' });
  });
});

it('leaves nothing: what has ended is forgotten with its job, and what died is kept for its replay', async () => {
  const { redis, prefix, ask, cancel, release, forget, join, clock } = open();
  const { waiting } = recipientKeys(prefix, recipientId);
  await ask('first');
  const digest = join('digest', { max: 1_000 });
  for (let name = 0; name < 150; name++) await ask(`m${name}`, digest);
  expect(await redis.hlen(waiting)).toBeGreaterThan(150);
  expect(await redis.pttl(waiting)).toBeGreaterThan(399 * DAY_MS);
  clock.now += 4_000;
  expect(await ask('m0', digest)).toMatchObject({ kind: 'admitted', digest: { count: 150 } });
  for (let name = 0; name < 150; name++) {
    if (name > 0) expect(await ask(`m${name}`, digest)).toMatchObject({ how: 'merged' });
    await forget(`m${name}`);
  }
  expect(await redis.hkeys(waiting)).toEqual([]);
  await cancel('x');
  await release('x', { how: 'dead' });
  expect(await redis.hkeys(waiting)).toEqual(['end:x@0']);
  expect(await redis.pexpiretime(waiting)).toBeGreaterThan(clock.now + 399 * DAY_MS);
  clock.now += 401 * DAY_MS;
  await cancel('y');
  expect(await redis.hkeys(waiting)).toEqual(['end:y@0']);
});

it('many ends that count for a minute keep the key no longer than few do', async () => {
  const { redis, prefix, ask, clock } = open();
  const { waiting } = recipientKeys(prefix, recipientId);
  await ask('first');
  for (let name = 0; name < 40; name++)
    expect(await ask(`m${name}`, { claim: true, maxWaitMs: 0 })).toMatchObject({ kind: 'refused' });
  expect(await redis.hlen(waiting)).toBeGreaterThanOrEqual(40);
  expect(await redis.pexpiretime(waiting)).toBeLessThanOrEqual(clock.now + 60_000);
});

it('what waits for one recipient in large numbers does not hold Redis', async () => {
  const { url } = await ownRedis(); // its statistics are those of this test alone
  const { redis, prefix, ask, cancel } = open(connectRedis(url));
  const { waiting } = recipientKeys(prefix, recipientId);
  const kept = Date.now() + 300 * DAY_MS;
  for (let from = 0; from < 100_000; from += 10_000) {
    const fields = Array.from({ length: 10_000 }, (_, at) => [
      `end:${from + at}`,
      JSON.stringify({ how: 'canceled', kept }),
    ]);
    await redis.hset(waiting, ...fields.flat());
  }
  await redis.config('RESETSTAT');
  for (const name of ['a', 'b', 'c']) {
    await ask(name);
    await cancel(name);
  }
  const stats = await redis.info('commandstats');
  expect(stats).not.toContain('cmdstat_hgetall');
  const calls = Number(/cmdstat_hscan:calls=(\d+)/.exec(stats)?.[1] ?? 0);
  expect(calls).toBeGreaterThan(0);
  expect(calls).toBeLessThanOrEqual(6);
  expect(await redis.hlen(waiting)).toBeGreaterThan(100_000);
});
