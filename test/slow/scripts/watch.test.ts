import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { startEmbeddedRedis } from '../../../sandbox/redis/embedded-redis.ts';
import { main } from '../../../scripts/status.ts';
import { runMain } from '../../support/command.ts';
import { startProcess } from '../../support/process.ts';
import { temporaryFolder } from '../../support/program.ts';
import { makeNotification } from '../../support/push.ts';
import { queueEnv, testPrefix } from '../../support/redis.ts';
import { openReplicaBench } from '../../support/replica.ts';
import { openTerminal, runOnTerminal } from '../../support/terminal.ts';

const FRAME = '\x1b[H';
const [ENTER, LEAVE] = ['\x1b[?1049h', '\x1b[?1049l'];

/** What was to be seen before the screen was left. */
async function lastScreen(raw: string, columns: number): Promise<string[]> {
  const terminal = openTerminal(columns);
  await terminal.write(raw.slice(0, raw.lastIndexOf(FRAME)));
  return terminal.lines();
}

test.each([
  ['q', 'q'],
  ['Ctrl-C', '\x03'],
])('on a terminal it draws in place, cuts, and %s gives the terminal back', async (_, key) => {
  const bench = await openReplicaBench();
  await bench.startHere({ LIMIT_RULES: '10/1m,20/2m,30/3m,40/4m,50/5m,60/6m,70/7m,80/8m' });
  const recipientId = 'a-recipient-with-a-name-that-is-as-long-as-names-of-recipients-may-well-be';
  await bench.queue.add('push', makeNotification({ recipientId }), { priority: 10, delay: 3_600_000 });
  const { code, raw, lines } = await runOnTerminal({
    ...{ command: 'node scripts/status.ts --watch 500ms', columns: 80, env: queueEnv(bench.prefix) },
    typed: { at: 'a second', text: key }, // the rates: a worker has written twice
  });
  expect(code).toBe(0);
  expect(raw.split(ENTER)).toHaveLength(2);
  expect(raw.split(LEAVE)).toHaveLength(2);
  expect(raw).toContain('\x1b[?25h'); // the cursor
  expect(lines).toEqual([]); // what was there before: nothing
  expect(raw.split(FRAME).length).toBeGreaterThan(2); // drawn twice at least

  const seen = await lastScreen(raw, 80);
  expect(seen).toHaveLength(24); // not one line more: nothing was wrapped or scrolled
  expect(seen[0]).toContain(bench.prefix);
  expect(seen[2]).toMatch(/^ALL IS WELL {2}1 worker is alive, 1 waits, .*…$/);
  expect(seen.find((line) => line.startsWith('policy'))).toMatch(/^policy +10\/1m, 20\/2m, .*…$/);
  expect(seen.at(-1)).toBe('q ends it');
});

test('another size of the window is drawn at once, and what has no room is counted', async () => {
  const isDrawn = join(await temporaryFolder(), 'is-drawn');
  const resize = `until [ -e ${isDrawn} ]; do sleep 0.1; done; stty cols 50 rows 8 </dev/tty`;
  const { code, raw } = await runOnTerminal({
    command: `sh -c '(${resize}) & exec ${process.execPath} scripts/status.ts --watch 1h'`,
    ...{ columns: 80, env: queueEnv(testPrefix()) },
    seen: { at: 'q ends it', act: () => writeFileSync(isDrawn, '') },
    typed: { at: 'more lines: make the window higher', text: 'q' },
  });
  expect(code).toBe(0);
  const screens = raw.split(FRAME).length - 1;
  expect([2, 3]).toContain(screens); // at each size once: stty sets the columns and the rows one after the other
  const small = raw.slice(raw.lastIndexOf(FRAME) + FRAME.length);
  const rows = small.slice(0, small.indexOf(LEAVE)).split('\r\n');
  expect(rows).toHaveLength(8);
  const terminal = openTerminal(200);
  await terminal.write(rows.join('\r\n'));
  expect((await terminal.lines()).filter((line) => line.length >= 50)).toEqual([]);
});

test('without a terminal each look is a block, or a line of JSON; it goes on when Redis is back', async () => {
  const first = await startEmbeddedRedis();
  const env = { ...queueEnv(testPrefix()), REDIS_URL: first.url };
  const args = ['scripts/status.ts', '--watch', '500ms'];
  const [blocks, json] = [startProcess({ args, env }), startProcess({ args: [...args, '--json'], env })];
  await blocks.waitForLine(/^WRONG/);
  await json.waitForLine(/^\{/);
  await first.close();
  for (const watch of [blocks, json]) await watch.waitForLine(/^warning: Redis is away: .*; it is tried again$/);
  const second = await startEmbeddedRedis({ port: first.port });
  onTestFinished(() => second.close());
  for (const watch of [blocks, json]) await watch.waitForLine(/^Redis answers again$/);
  const lookedSoFar = json.stdout().split('\n').length;
  await vi.waitFor(() => expect(json.stdout().split('\n').length).toBeGreaterThan(lookedSoFar), 60_000);
  for (const watch of [blocks, json]) watch.kill('SIGINT');
  const [ofBlocks, ofJson] = [await blocks.waitForExit(), await json.waitForExit()];
  expect([ofBlocks.code, ofJson.code]).toEqual([0, 0]);
  expect(ofBlocks.stdout.split('\n\n').filter((part) => part.startsWith('WRONG')).length).toBeGreaterThan(1);
  expect(ofBlocks.stdout).not.toContain('\x1b');
  const looks = ofJson.stdout.trimEnd().split('\n');
  for (const look of looks) expect(JSON.parse(look)).toMatchObject({ ok: false, workersAlive: 0 });
});

test.each([
  [['--watch', '100ms'], '--watch: expected a duration such as 2s, from 500ms to 1h, found "100ms"'],
  [['--watch', '2h'], '--watch: expected a duration such as 2s, from 500ms to 1h, found "2h"'],
  [['msg-1', '--watch', '2s'], '--watch: expected no ID beside it, found one'],
])('%j is bad usage', async (args, message) => {
  const exit = await runMain(main, args, queueEnv(testPrefix()));
  expect(exit).toEqual({ code: 2, stdout: '', stderr: `error: ${message}\n` });
});
