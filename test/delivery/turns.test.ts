import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { EndTurn } from '../../src/delivery/context.ts';
import { createTurns } from '../../src/delivery/slot.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { waitFor } from '../support/wait.ts';
import { openBench } from './support.ts';

it('the passes of one recipient take turns in the order in which they came', async () => {
  const turns = createTurns();
  const begun: number[] = [];
  const ends: EndTurn[] = [];
  const passes = [0, 1, 2].map(async (number) => {
    ends[number] = await turns.take('teacher-1');
    begun.push(number);
  });
  for (const number of [0, 1, 2]) {
    await waitFor(() => expect(begun).toHaveLength(number + 1));
    await nextTurn();
    expect(begun).toHaveLength(number + 1);
    ends[number]?.();
  }
  await Promise.all(passes);
  expect(begun).toEqual([0, 1, 2]);
});

it('nobody waits for another recipient, nor for a turn that has ended', () => {
  const turns = createTurns();
  expect(turns.take('teacher-1')).toBeTypeOf('function');
  const end = turns.take('teacher-2');
  expect(end).toBeTypeOf('function');
  if (typeof end === 'function') end();
  expect(turns.take('teacher-2')).toBeTypeOf('function');
});

it('nobody waits for ever for one that does not end', async () => {
  const turns = createTurns(20);
  void turns.take('teacher-1');
  const second = await turns.take('teacher-1');
  second();
  expect(turns.take('teacher-1')).toBeTypeOf('function');
});

it('a notification that has a stream at once does not overtake one of the same recipient that waits for its own', async () => {
  const options = { sandbox: { maxStreams: 1 }, sender: { minConnections: 1, maxConnections: 1 } };
  const { run, sandbox } = await openBench(options);
  const slow = makeDevice('apns');
  sandbox.apns.script(slow.token, [{ kind: 'accept', delayMs: 200 }]);
  const other = run(makeNotification({ recipientId: 'somebody-else', devices: [slow] }));
  await waitFor(() => expect(sandbox.journal.all).toHaveLength(1)); // the only stream is taken
  const first = run(makeNotification({ devices: [makeDevice('apns')] }));
  const second = run(makeNotification({ devices: [makeDevice('fcm')] }));
  expect((await first).outcome).toEqual({ kind: 'delivered' });
  expect((await second).outcome).toMatchObject({ kind: 'requeued', rule: 'gap' });
  await other;
});
