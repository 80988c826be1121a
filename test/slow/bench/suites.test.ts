import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { figuresOf } from '../../../bench/alternatives/suite.ts';
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

const LIMITER = ['limiter', '--runs', '2', '--seconds', '0.02'];

/** What needs no rival, and what is null without one. */
const OURS = ['vsSet', 'mbFor100kx60', 'bytesWith10', 'bytesWith60', 'asksFor50', 'asksFor200', 'asksFor1000'];
const BESIDE_RIVALS = [
  'vsRateLimiterFlexible',
  'vsRateLimiterFlexibleSingle',
  'twoWindowsVsRateLimiterFlexible',
  'vsRollingRateLimiter',
  'bytesVsRollingRateLimiter',
  ...['rollingRateLimiter', 'rateLimiterFlexible'].flatMap((rival) =>
    ['MbFor100kx60', 'BytesWith10', 'BytesWith60', 'AsksFor50', 'AsksFor200', 'AsksFor1000'].map(
      (field) => `${rival}${field}`,
    ),
  ),
];

test(
  'a quick run measures ours and SET, prints every field, and keeps progress off standard output',
  { timeout: 180_000 },
  async () => {
    const { result: found, stderr } = await quick(...LIMITER);
    const result = found as Record<string, unknown>;
    expect(stderr).toContain('limiter: warming up');
    for (const field of OURS) expect.soft(result[field], field).toBeGreaterThan(0);
    for (const field of BESIDE_RIVALS) expect.soft(result[field], field).toBeNull();
    expect(Object.keys(result)).toEqual(expect.arrayContaining(['suite', 'quick', 'seconds', 'spread', 'versions']));
    const cases = result['cases'] as { name: string; asksPerSecond: number; microsInRedis: number }[];
    expect(cases.map(({ name }) => name)).toEqual([
      'plain SET',
      ...['first ask', 'admitted, one rule'].map((name) => `pushpacer, ${name}`),
      ...['10/1m and a gap', '10/1m and 100/1h'].map((rules) => `pushpacer, admitted, two rules (${rules})`),
      'pushpacer, admitted, two scopes of two rules',
      'pushpacer, blocked, and a slot reserved',
      'pushpacer, returning at its slot',
    ]);
    for (const { asksPerSecond, microsInRedis } of cases) {
      expect(asksPerSecond).toBeGreaterThan(0);
      expect(microsInRedis).toBeGreaterThan(0);
    }
    // Neither depends on how busy the machine is.
    expect(result['asksFor1000']).toBeLessThanOrEqual(2_010);
    expect(result['bytesWith10']).toBeLessThan(1_000);
  },
);

test('--markdown prints the tables for the docs', { timeout: 180_000 }, async () => {
  const { code, stdout } = await startProcess({
    args: ['bench/bench.ts', ...LIMITER, '--quick', '--markdown'],
  }).waitForExit(150_000);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^\| two rules, admitted +\| +measured \|/);
  expect(stdout).toMatch(/^\| plain SET +\| +[\d,]+ \| +1\.00 \|/m);
  expect(stdout).toContain('A quick check, no measurement.');
});

const FIGURES = CASES.flatMap(({ platform, suffix }) =>
  ['VsPlain', 'PerSecond', 'PlainPerSecond'].map((what) => `${platform}${what}${suffix}`),
);

test(
  'the smallest run measures both workers in every case, and every alert arrives',
  { timeout: 180_000 },
  async () => {
    const said: string[] = [];
    const say = (line: string) => said.push(line);
    const { json } = await measure({ quick: true, runs: 1, say }, { jobs: 200, warmUp: 50, counted: 50 });
    for (const key of [...FIGURES, 'redisCommandsPerJob', 'plainRedisCommandsPerJob', 'seconds']) {
      expect.soft(json[key], key).toSatisfy((value) => Number.isFinite(value) && Number(value) > 0);
    }
    expect(json).toMatchObject({ suite: 'throughput', quick: true, pairs: 1, jobs: 200 });
    expect(json['alertsEnqueued']).toBe(CASES.length * 2 * 200);
    expect(json['alertsAccepted']).toBe(json['alertsEnqueued']);
    // BullMQ ends a job and takes the next one in one command, and so few jobs are each taken by one more; the scripts
    // behind them run more than ten.
    expect(json['plainRedisCommandsPerJob']).toBeGreaterThanOrEqual(1);
    expect(json['plainRedisCommandsPerJob']).toBeLessThan(5);
    expect(said).toEqual(
      expect.arrayContaining(CASES.map(({ name }) => `${name}: 1 pairs of runs with 200 jobs each`)),
    );
  },
);

test(
  'the row with everything on compares with a worker that has it off, and its spans arrive',
  { timeout: 180_000 },
  async () => {
    const options = { quick: true, runs: 1, row: 'observed', say: () => undefined };
    const { json } = await measure(options, { jobs: 200, warmUp: 50, counted: 50 });
    for (const { platform, suffix } of CASES) expect(json[`${platform}VsOff${suffix}`]).toBeGreaterThan(0);
    expect(json['alertsAccepted']).toBe(CASES.length * 2 * 200);
    // One for the story and one for the outcome; spans cost Redis nothing.
    const more = Number(json['redisCommandsPerJob']) - Number(json['plainRedisCommandsPerJob']);
    expect(more).toBeGreaterThan(1.5);
    expect(more).toBeLessThan(2.5);
  },
);

test('the row with a replica compares with a worker that does not wait for it', { timeout: 180_000 }, async () => {
  const options = { quick: true, runs: 1, row: 'replicas', say: () => undefined };
  const { json } = await measure(options, { jobs: 200, warmUp: 50, counted: 200 });
  for (const { platform, suffix } of CASES) expect(json[`${platform}VsNoWait${suffix}`]).toBeGreaterThan(0);
  expect(json['alertsAccepted']).toBe(CASES.length * 2 * 200);
  // Admissions that come together share one WAIT.
  const more = Number(json['redisCommandsPerJob']) - Number(json['plainRedisCommandsPerJob']);
  expect(more).toBeGreaterThan(0);
  expect(more).toBeLessThan(1);
});

/** How far bytes may be from those of docs/capacity.md, which are of ten times as many notifications. */
const SHARE = 0.3;

test('a quick run finds about the bytes and commands of docs/capacity.md', { timeout: 180_000 }, async () => {
  const found = (await quick('capacity')).result as Record<string, number>;
  const page = await readFile('docs/capacity.md', 'utf8');
  const rows = [...page.matchAll(/^\|.*\| +([\d,]+) \| `([A-Za-z0-9]+)` +\|$/gm)];
  expect(rows).toHaveLength(10);
  for (const [, bytes = '', name = ''] of rows) {
    const documented = Number(bytes.replace(',', ''));
    expect.soft(found[name], name).toBeGreaterThan(documented * (1 - SHARE));
    expect.soft(found[name], name).toBeLessThan(documented * (1 + SHARE));
  }
  expect(page).toContain(`has ${found['jsonBytes']} bytes`);
  // BullMQ ends a job and takes the next with one command, and the limiter is asked with one more; blocked ones ask twice.
  expect(found['commandsAtOnce']).toBeGreaterThan(2);
  expect(found['commandsAtOnce']).toBeLessThan(3);
  expect(found['commandsDeferred']).toBeGreaterThan(4);
  expect(found['commandsDeferred']).toBeLessThan(8);
  expect(found['connections']).toBe(3);
});

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
