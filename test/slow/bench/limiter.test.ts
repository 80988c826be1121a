import { expect, test } from 'vitest';
import { startProcess } from '../../support/process.ts';

const QUICK = ['bench/bench.ts', 'limiter', '--quick', '--runs', '2', '--seconds', '0.02'];

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

test('a quick run measures ours and SET, prints every field, and keeps progress off standard output', async () => {
  const { code, stdout, stderr } = await startProcess({ args: [...QUICK, '--json'] }).waitForExit();
  expect({ code, stderr }).toMatchObject({ code: 0, stderr: expect.stringContaining('limiter: warming up') as string });
  const lines = stdout.trimEnd().split('\n');
  const result = JSON.parse(lines.at(-1) ?? '') as Record<string, unknown>;
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
});

test('--markdown prints the tables for the docs', async () => {
  const { code, stdout } = await startProcess({ args: [...QUICK, '--markdown'] }).waitForExit();
  expect(code).toBe(0);
  expect(stdout).toMatch(/^\| two rules, admitted +\| +measured \|/);
  expect(stdout).toMatch(/^\| plain SET +\| +[\d,]+ \| +1\.00 \|/m);
  expect(stdout).toContain('A quick check, no measurement.');
});
