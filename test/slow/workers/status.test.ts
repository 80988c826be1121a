import { expect, test } from 'vitest';
import { makeNotification } from '../../support/push.ts';
import { queueEnv } from '../../support/redis.ts';
import { runOnTerminal } from '../../support/terminal.ts';
import { waitFor } from '../../support/wait.ts';
import { openRunning } from '../../support/waiting.ts';

test.each([100, 40])('on a terminal of %d columns no line is longer, and the verdict is the last', async (columns) => {
  const rules = '10/1m,20/2m,30/3m,40/4m,50/5m,60/6m,70/7m,80/8m';
  const { prefix, queue } = await openRunning({ LIMIT_MIN_GAP: '1h', LIMIT_RULES: rules });
  const recipientId = 'a-recipient-with-a-name-that-is-as-long-as-names-of-recipients-may-well-be';
  for (let at = 0; at < 3; at++) await queue.add('push', makeNotification({ recipientId }), { priority: 10 });
  await waitFor(async () => expect(await queue.getDelayedCount()).toBe(2));
  const { code, lines } = await runOnTerminal({ command: 'node scripts/status.ts', columns, env: queueEnv(prefix) });
  expect(code).toBe(0);
  expect(lines.filter((line) => line.length > columns)).toEqual([]);
  const words = lines.join(' ').replaceAll(/ +/g, ' ');
  expect(words).toContain('80/8m, gap 1h (1 worker)');
  expect(words).toMatch(/ALL IS WELL 1 worker is alive, 2 wait, nothing is late, .* hour$/);
});
