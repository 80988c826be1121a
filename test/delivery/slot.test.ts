import { expect, it } from 'vitest';
import { readProgress } from '../../src/delivery/progress.ts';
import { makeNotification } from '../support/push.ts';
import { leaseOf, openBench } from './support.ts';

it('of a job that was taken over is not renewed: its new owner may have sent on it', async () => {
  const { run, limiter, sandbox } = await openBench();
  const notification = makeNotification({ recipientId: 'teacher-9' });
  // What the new owner does while this worker, which asked without an answer before, is stopped in its pass.
  await limiter.admit({ recipientId: 'teacher-9', id: `${notification.id}/0` });
  const before = (await limiter.inspect('teacher-9')).sent;
  const answers = [true, false];
  const lease = { ...leaseOf(), holds: () => Promise.resolve(answers.shift() ?? false) };
  const { outcome } = await run(notification, readProgress(0), { lease, isUnsent: true });
  expect(outcome).toEqual({ kind: 'yielded' });
  expect((await limiter.inspect('teacher-9')).sent).toEqual(before);
  expect(sandbox.journal.all).toEqual([]);
});
