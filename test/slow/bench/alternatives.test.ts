import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Figures } from '../../../bench/alternatives/figures.ts';
import { expectWellFormed } from '../../support/markup.ts';
import { startProcess } from '../../support/process.ts';

test('a quick run delivers the burst each way, counts at the providers, and draws it', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'pushpacer-alternatives-'));
  const svg = join(folder, 'burst.svg');
  const args = ['bench/bench.ts', 'alternatives', '--quick', '--json', '--svg', svg];
  const { code, stdout, stderr } = await startProcess({ args }).waitForExit(150_000);
  expect({ code, stderr }).toMatchObject({ code: 0 });
  const result = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Record<string, Figures | null>;
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
  await rm(folder, { recursive: true });
}, 180_000);
