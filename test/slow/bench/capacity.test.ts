import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { startProcess } from '../../support/process.ts';

/** How far bytes may be from those of docs/capacity.md, which are of ten times as many notifications. */
const SHARE = 0.3;

test('a quick run finds about the bytes and commands that docs/capacity.md tells', { timeout: 180_000 }, async () => {
  const bench = startProcess({ args: ['bench/bench.ts', 'capacity', '--quick', '--json'] });
  const { code, stdout } = await bench.waitForExit(150_000);
  expect(code).toBe(0);
  const found = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Record<string, number>;

  const page = await readFile('docs/capacity.md', 'utf8');
  const rows = [...page.matchAll(/^\|.*\| +([\d,]+) \| `([A-Za-z0-9]+)` +\|$/gm)];
  expect(rows).toHaveLength(10);
  for (const [, bytes = '', name = ''] of rows) {
    const told = Number(bytes.replace(',', ''));
    expect.soft(found[name], name).toBeGreaterThan(told * (1 - SHARE));
    expect.soft(found[name], name).toBeLessThan(told * (1 + SHARE));
  }
  expect(page).toContain(`has ${found['jsonBytes']} bytes`);
  // BullMQ ends a job and takes the next with one command, and the limiter is asked with one more; blocked ones ask twice.
  expect(found['commandsAtOnce']).toBeGreaterThan(2);
  expect(found['commandsAtOnce']).toBeLessThan(3);
  expect(found['commandsDeferred']).toBeGreaterThan(4);
  expect(found['commandsDeferred']).toBeLessThan(8);
  expect(found['connections']).toBe(3);
});
