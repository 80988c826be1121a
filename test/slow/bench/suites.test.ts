import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { figuresOf } from '../../../bench/alternatives/suite.ts';
import type { Check } from '../../../bench/capacity/check.ts';
import { measureMemory, type Surroundings } from '../../../bench/capacity/measure.ts';
import { runMillion } from '../../../bench/capacity/million.ts';
import { MEASURED } from '../../../bench/capacity/model.ts';
import { measurePoint } from '../../../bench/capacity/points.ts';
import { checksOf } from '../../../bench/capacity/suite.ts';
import { measureBudget } from '../../../bench/throughput/budget.ts';
import { startCounters } from '../../../bench/throughput/providers.ts';
import { NO_LATENCY } from '../../../sandbox/loopback/timing.ts';
import { CASES } from '../../../bench/throughput/run.ts';
import { measure } from '../../../bench/throughput/suite.ts';
import { expectWellFormed } from '../../support/markup.ts';
import { startProcess } from '../../support/process.ts';
import { temporaryFolder } from '../../support/program.ts';

/** `npm run bench ARGS --quick --json`, to its end: what it prints last. */
async function quick(...args: readonly string[]): Promise<{ readonly result: unknown; readonly stderr: string }> {
  const bench = startProcess({ args: ['bench/bench.ts', ...args, '--quick', '--json'] });
  const { code, stdout, stderr } = await bench.waitForExit(150_000);
  expect(code, stderr).toBe(0);
  return { result: JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as unknown, stderr };
}

test(
  'a quick run of the limiter measures ours and SET, and keeps progress off standard output',
  { timeout: 180_000 },
  async () => {
    const { result: found, stderr } = await quick('limiter', '--runs', '2', '--seconds', '0.02');
    const result = found as Record<string, unknown>;
    expect(stderr).toContain('limiter: warming up');
    for (const field of ['vsSet', 'bytesWith10', 'asksFor1000']) expect.soft(result[field], field).toBeGreaterThan(0);
    for (const field of ['vsRollingRateLimiter', 'rateLimiterFlexibleAsksFor50']) {
      expect.soft(result[field], field).toBeNull(); // no rival is measured in a quick run
    }
    const cases = result['cases'] as { name: string; asksPerSecond: number; microsInRedis: number }[];
    expect(cases).toHaveLength(8);
    for (const { name, ...measured } of cases) {
      expect([name, Object.values(measured).every((value) => value > 0)]).toEqual([name, true]);
    }
    // Neither depends on how busy the machine is.
    expect(result['asksFor1000']).toBeLessThanOrEqual(2_010);
    expect(result['bytesWith10']).toBeLessThan(1_000);
  },
);

const FIGURES = CASES.flatMap(({ platform, suffix }) =>
  ['VsPlain', 'PerSecond', 'PlainPerSecond'].map((what) => `${platform}${what}${suffix}`),
);

test(
  'the smallest run measures both workers in every case, and every alert arrives',
  { timeout: 180_000 },
  async () => {
    const say = () => undefined;
    const { json, failure, text } = await measure(
      { quick: true, runs: 1, say },
      { jobs: 200, warmUp: 50, counted: 50 },
    );
    // So few jobs cost more than the page says, which holds for thousands.
    expect(Object.values(json['counts'] as object).every((count) => count > 0)).toBe(true);
    expect(failure).toContain('(docs/benchmarks.md), give or take 10 %, found');
    expect(text).toMatch(/^commands to Redis +[\d.]+ +[\d.]+$/m);
    for (const key of [...FIGURES, 'redisCommandsPerJob', 'plainRedisCommandsPerJob', 'seconds']) {
      expect.soft(json[key], key).toSatisfy((value) => Number.isFinite(value) && Number(value) > 0);
    }
    expect(json['alertsEnqueued']).toBe(CASES.length * 2 * 200);
    expect(json['alertsAccepted']).toBe(json['alertsEnqueued']);
    // BullMQ ends a job and takes the next one in one command, and so few jobs are each taken by one more.
    expect(json['plainRedisCommandsPerJob']).toBeLessThan(5);
  },
);

test('the budget finds what each part of a job costs, for both workers', { timeout: 180_000 }, async () => {
  interface Costs {
    readonly microsPerJob: number;
    readonly micros: Readonly<Record<string, number>>;
    readonly bytes: Readonly<Record<string, number>>;
  }
  const options = { quick: true, runs: 1, say: () => undefined };
  const { json } = await measureBudget(options, { jobs: 600, warmUp: 200, counted: 0 });
  const [only, ...others] = json['cases'] as { plain: Costs; pushpacer: Costs }[];
  expect(others).toEqual([]); // APNs alone, since it is quick
  for (const { microsPerJob, micros, bytes } of [only?.plain, only?.pushpacer].flatMap((costs) => costs ?? [])) {
    expect(Object.values(micros).reduce((sum, value) => sum + value, 0)).toBeCloseTo(microsPerJob, -1);
    for (const part of ['node', 'bullmq', 'ioredis']) {
      expect.soft([part, (micros[part] ?? 0) > 0, (bytes[part] ?? 0) > 0]).toEqual([part, true, true]);
    }
  }
  expect(only?.pushpacer.micros['src/delivery']).toBeGreaterThan(0);
  expect(only?.plain.micros).not.toHaveProperty('src/delivery');
});

/** Counts and the network depend a little on how busy the machine is, and small samples on chance. */
const SHARE = 0.3;

function expectNear(checks: readonly Check[]): void {
  const judged = checks.filter(({ kind }) => kind !== 'time');
  expect(judged.length).toBeGreaterThan(0);
  for (const { name, kind, measured, model } of judged) {
    if (kind !== 'bound') expect.soft(measured, name).toBeGreaterThan(model * (1 - SHARE));
    expect.soft(measured, name).toBeLessThan(model * (1 + SHARE));
  }
}

async function surrounded<T>(use: (around: Surroundings) => Promise<T>): Promise<T> {
  const counters = await startCounters(NO_LATENCY);
  try {
    return await use({ counters, dir: await temporaryFolder(), say: () => undefined });
  } finally {
    await counters.close();
  }
}

test('the bytes of notifications and recipients are about those of the capacity model', { timeout: 400_000 }, () =>
  surrounded(async (around) => {
    const found = await measureMemory({ waiting: 5_000, ended: 1_000, jobs: 0 }, around);
    expect(found.jsonBytes).toBe(MEASURED.jsonBytes);
    expectNear(checksOf({ ...found, lineBytes: MEASURED.lineBytes })); // a small difference of large numbers
  }),
);

test('bytes, scripts and connections are about those of the capacity model', { timeout: 400_000 }, () =>
  surrounded(async (around) => {
    expectNear((await measurePoint({ masters: 1, replicas: 0, shards: 2 }, 2_000, around)).checks);
  }),
);

test('what waits on a cluster takes what the model says, and is delivered when it is due', { timeout: 300_000 }, () =>
  surrounded(async (around) => {
    // So few that the workers have alerts of one recipient at the same time.
    const size = { recipients: 500, line: 10, due: 10, perSecond: 10 };
    const { checks, late, lateBefore } = await runMillion(size, around);
    expectNear(checks);
    expect([lateBefore.count, late.count]).toEqual([size.due, size.due]);
    expect(late.p50).toBeGreaterThan(-5); // nothing leaves before it is due
  }),
);

test('a quick run delivers the burst each way, counts at the providers, and draws it', async () => {
  const folder = await temporaryFolder();
  const svg = join(folder, 'burst.svg');
  const { result: found } = await quick('alternatives', '--svg', svg);
  const result = found as Record<string, ReturnType<typeof figuresOf> | null>;
  expect(result).toMatchObject({ suite: 'alternatives', quick: true, burst: { busy: 12, others: 12 }, rolling: null });
  for (const name of ['plain', 'bullmqWindow', 'bullmqGap', 'pushpacer']) {
    expect.soft(result[name], name).toMatchObject({ lost: 0, duplicates: 0 });
  }
  // These do not depend on how busy the machine is: the one limits nothing, the other starts one job in 300 ms.
  expect(result['plain']?.mostInWindow).toBe(12);
  expect(result['bullmqGap']?.othersWorstMs).toBeGreaterThan(6_000);
  expect(result['pushpacer']?.passesPerJob).toBeGreaterThan(1);
  for (const file of [svg, join(folder, 'burst-dark.svg')]) {
    const picture = await readFile(file, 'utf8');
    expectWellFormed(picture);
    expect(picture.match(/<circle /g)).toHaveLength(24);
  }
}, 180_000);

interface Flood {
  readonly ratio: number;
  readonly passes: number;
}

test('a quick flood is delivered in every setting, and judged by what arrived', { timeout: 180_000 }, async () => {
  const result = (await quick('pacing', '--row', 'flood')).result as { readonly flood: readonly Flood[] };
  expect(result).toMatchObject({ suite: 'pacing', quick: true, runs: 1, many: [], standstill: [] });
  expect(result.flood).toHaveLength(4);
  for (const each of result.flood) {
    expect(each).toMatchObject({ lost: 0, duplicates: 0 });
    expect(each.ratio).toBeGreaterThan(0.9); // below, the gap would have been broken
    expect(each.passes).toBeGreaterThan(1); // else nothing waited
  }
});
