import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { createStamp, type StampLook } from '../../src/redis/stamp.ts';
import { ownRedis } from '../support/own-redis.ts';
import { temporaryFolder } from '../support/program.ts';
import { connectRedis } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';

const KEY = '{pushpacer}:stamp';
const EVERY_MS = 20;
/** More than a state may be older without being told. */
const LONG_MS = 3 * EVERY_MS;

/** A connection that says nothing while its Redis is away. */
const patient = (url: string) => connectRedis(url).on('error', () => undefined);

/** A process that looks at the stamp. */
const processAt = (url: string): (() => Promise<StampLook>) => createStamp(patient(url), KEY, EVERY_MS);

const kinds = ({ losses }: StampLook) => losses.map(({ kind }) => kind);
const evictedIn = (losses: StampLook['losses']) =>
  losses.flatMap((loss) => (loss.kind === 'evicted' ? [loss.evicted] : []));

describe('nothing is lost', () => {
  it('an empty Redis at a first start is a new installation, for all processes', async () => {
    const { url } = await ownRedis();
    const [first, second] = [processAt(url), processAt(url)];
    const look = await first();
    expect(look).toMatchObject({
      losses: [],
      policy: 'noeviction',
      runId: expect.stringMatching(/^[0-9a-f]{40}$/) as string,
    });
    for (const again of [second, first, second]) expect(await again()).toMatchObject({ losses: [] });
    const ttl = await connectRedis(url).pttl(KEY);
    expect(ttl).toBeGreaterThan(6 * 86_400_000);
  });

  it('a Redis that was started again with all its data', async () => {
    const dir = await temporaryFolder();
    const redis = await ownRedis({ dir, appendonly: true });
    const look = processAt(redis.url);
    const before = await look();
    process.kill(redis.pid, 'SIGKILL');
    await redis.ended;
    await ownRedis({ dir, appendonly: true, port: redis.port });
    const after = await look();
    expect(after.losses).toEqual([]);
    expect(after.runId).not.toBe(before.runId);
  });

  it('a replica that took over', async () => {
    const [master, replica] = [await ownRedis({ extraArgs: ['--repl-diskless-sync-delay', '0'] }), await ownRedis()];
    const admin = connectRedis(replica.url);
    await admin.replicaof('127.0.0.1', master.port);
    const connection = patient(master.url);
    const look = createStamp(connection, KEY, EVERY_MS);
    const before = await look();
    await waitFor(async () => expect(await admin.exists(KEY)).toBe(1));
    await admin.replicaof('NO', 'ONE');
    connection.options.port = replica.port; // as a client that asks Sentinels
    await master.close();
    const after = await look();
    expect(after.losses).toEqual([]);
    expect(after.runId).not.toBe(before.runId);
  });

  it('a stamp that was written by a clock that is ahead', async () => {
    const { url } = await ownRedis();
    const [first, second] = [processAt(url), processAt(url)];
    await Promise.all([first(), second()]);
    await connectRedis(url).hset(KEY, 'at', Date.now() + 3_600_000);
    for (const again of [first, second, first]) expect(kinds(await again())).toEqual([]);
  });
});

describe('all is lost', () => {
  it('the keys were deleted: each process that knew them notices it once, and a later one has nothing to notice', async () => {
    const { url } = await ownRedis();
    const [first, second, later] = [processAt(url), processAt(url), processAt(url)];
    await Promise.all([first(), second()]);
    const before = Date.now();
    await connectRedis(url).flushall();
    const { losses, runId } = await first();
    expect(losses).toEqual([{ kind: 'emptied', at: expect.any(Number) as number, server: { runId, isSame: true } }]);
    expect(losses[0]?.at).toBeGreaterThan(before - 1_000);
    expect(kinds(await later())).toEqual([]);
    expect((await second()).losses).toEqual(losses);
    for (const again of [first, second, later]) expect(kinds(await again())).toEqual([]);
  });

  it('also where a process that began later was the first to look', async () => {
    const { url } = await ownRedis();
    const [first, later] = [processAt(url), processAt(url)];
    await first();
    await connectRedis(url).flushall();
    expect(kinds(await later())).toEqual([]);
    expect(kinds(await first())).toEqual(['emptied']);
  });

  it('Redis was started again without its data, or another one is in its place', async () => {
    const redis = await ownRedis();
    const look = processAt(redis.url);
    await look();
    await redis.close();
    await ownRedis({ port: redis.port });
    const { losses, runId } = await look();
    expect(losses).toMatchObject([{ kind: 'emptied', server: { runId, isSame: false } }]);
  });

  it('also where the user may not call INFO', async () => {
    const { url } = await ownRedis();
    const admin = connectRedis(url);
    await admin.call('ACL', 'SETUSER', 'app', 'on', 'nopass', '~*', '+@all', '-info');
    const look = createStamp(connectRedis(url.replace('//', '//app:any@')), KEY, EVERY_MS);
    expect(await look()).toEqual({ losses: [], runId: '', policy: undefined });
    await admin.flushall();
    expect((await look()).losses).toMatchObject([{ kind: 'emptied', server: { runId: '', isSame: false } }]);
  });
});

it('the last part is lost: Redis came back with an old snapshot, and each process notices it', async () => {
  const dir = await temporaryFolder();
  const redis = await ownRedis({ dir });
  const [first, second] = [processAt(redis.url), processAt(redis.url)];
  await Promise.all([first(), second()]);
  const admin = patient(redis.url);
  await admin.save();
  const saved = Number(await admin.hget(KEY, 'at'));
  await sleep(LONG_MS);
  await Promise.all([first(), second()]);
  const last = Number(await admin.hget(KEY, 'at'));
  process.kill(redis.pid, 'SIGKILL');
  await redis.ended;
  await ownRedis({ dir, port: redis.port });
  const { losses } = await first();
  expect(losses).toMatchObject([
    { kind: 'older', from: saved, to: expect.any(Number) as number, server: { isSame: false } },
  ]);
  expect((losses[0] as { readonly to: number }).to).toBeLessThanOrEqual(last);
  expect((await second()).losses).toEqual(losses);
  for (const again of [first, second]) expect(kinds(await again())).toEqual([]);
});

describe('a Redis that evicts', () => {
  /** Lets it have too little memory for what it holds, for a moment. */
  async function evict(admin: ReturnType<typeof connectRedis>): Promise<void> {
    const figure = async (section: string, field: RegExp) => Number(field.exec(await admin.info(section))?.[1]);
    const evicted = () => figure('stats', /evicted_keys:(\d+)/);
    const before = await evicted();
    for (let at = 0; at < 100; at++) await admin.set(`${before} ${at}`, 'x'.repeat(10_000), 'EX', 1_000);
    await admin.config('SET', 'maxmemory', (await figure('memory', /used_memory:(\d+)/)) - 300_000);
    await waitFor(async () => expect(await evicted()).toBeGreaterThanOrEqual(before + 10));
    await admin.config('SET', 'maxmemory', 0);
  }
  // Those that expire first are evicted first, so the stamp stays.
  const extraArgs = ['--maxmemory-policy', 'volatile-ttl'];

  it('what it evicted since somebody looked is told once, with its number; what it evicted before is not', async () => {
    const { url } = await ownRedis({ extraArgs });
    const admin = connectRedis(url);
    await evict(admin);
    const [first, second] = [processAt(url), processAt(url)];
    expect(await first()).toMatchObject({ losses: [], policy: 'volatile-ttl' });
    expect(kinds(await second())).toEqual([]);
    await evict(admin);
    const now = await Promise.all([first(), second()]);
    const losses = now.flatMap((each) => each.losses);
    expect(losses).toHaveLength(1);
    expect(losses[0]).toMatchObject({ kind: 'evicted', since: expect.any(Number) as number });
    const [evicted = NaN] = evictedIn(losses);
    expect(evicted).toBeGreaterThanOrEqual(10);
    await evict(admin);
    const more = await second();
    expect(kinds(more)[0]).toBe('evicted');
    expect(evictedIn(more.losses)[0]).toBeGreaterThanOrEqual(evicted + 10);
    expect(kinds(await first())).toEqual([]);
  });

  it('a stamp that was evicted too is no emptied Redis', async () => {
    const { url } = await ownRedis({ extraArgs });
    const admin = connectRedis(url);
    const [first, second, later] = [processAt(url), processAt(url), processAt(url)];
    await Promise.all([first(), second()]);
    await evict(admin);
    await admin.del(KEY);
    expect(kinds(await later())).toEqual([]);
    expect(kinds(await first())).toEqual(['evicted']);
    expect(kinds(await second())).toEqual(['evicted']);
    for (const again of [first, second, later]) expect(kinds(await again())).toEqual([]);
  });
});
