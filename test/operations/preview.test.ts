import { expect, test } from 'vitest';
import { act } from '../../src/operations/actions.ts';
import { preview, previewCancel } from '../../src/operations/preview.ts';
import { findCancelable } from '../../src/producer/cancel.ts';
import { HOUR, openLine } from './line.ts';

const POLICY = { rules: [{ max: 10, perMs: 60_000 }], minGapMs: 3_000 };
const ID = 'teacher-42';

test('a block moves what its preview says, in every limiter, and the jobs with it', async () => {
  const { parts, wait, dueAt, stored } = await openLine(POLICY);
  await wait('alert', { id: 'a' }, { id: 'b' }, { id: 'c' });
  await wait('background', ...['p', 'q'].map((id) => ({ id, pushType: 'background' as const, alert: undefined })));
  const until = Date.now() + 2 * HOUR;
  const action = { kind: 'block', until, reason: 'exam' } as const;
  const before = await stored();
  const foreseen = await preview(ID, action, parts);
  expect(await stored()).toEqual(before);
  expect(foreseen).toMatchObject({ waiting: 3, moves: 3, earlier: 0, later: 3, lastAtAfter: until + 3_000 });
  expect(foreseen.slots.map(({ id, to, rule }) => ({ id, to: to - until, rule }))).toEqual([
    { id: 'b', to: 0, rule: 'block' },
    { id: 'c', to: 3_000, rule: 'block' },
    { id: 'q', to: 0, rule: 'block' },
  ]);
  const seen: number[] = [];
  expect(await act(ID, action, parts, (moved) => void seen.push(moved))).toEqual({ wasThere: true, moved: 3 });
  expect(seen.at(-1)).toBe(3);
  const { reserved } = await parts.limiters.alert.inspect(ID);
  expect(reserved.map(({ at }) => at)).toEqual([until, until + 3_000]);
  for (const [id, at] of Object.entries({ b: until, c: until + 3_000, q: until })) {
    const lead = at - (await dueAt(id));
    expect(lead).toBeGreaterThanOrEqual(0);
    expect(lead).toBeLessThanOrEqual(25); // as when a worker puts a job back
  }
  expect(await preview(ID, action, parts)).toMatchObject({ moves: 0, waiting: 3 });
});

test('counts what would expire before its new slot', async () => {
  const { parts, wait } = await openLine(POLICY);
  const soon = Date.now() + 40_000;
  await wait(
    'alert',
    { id: 'a' },
    { id: 'b', sendAfter: undefined, expiresAt: soon },
    { id: 'c', sendAfter: undefined, expiresAt: soon + 2 * HOUR },
    { id: 'd' },
  );
  const block = (ms: number) => ({ kind: 'block', until: Date.now() + ms, reason: 'exam' }) as const;
  expect(await preview(ID, block(HOUR), parts)).toMatchObject({ later: 3, expiring: 1, expiryKnown: 3 });
  expect(await preview(ID, block(3 * HOUR), parts)).toMatchObject({ later: 3, expiring: 2 });
});

test('a cancel by key frees slots for those behind', async () => {
  const { parts, producer, wait, stored } = await openLine(POLICY);
  const cancellationKey = 'trip';
  await wait(
    'alert',
    { id: 'a' },
    { id: 'b', cancellationKey },
    { id: 'c' },
    { id: 'd', cancellationKey },
    { id: 'e' },
  );
  await wait('alert', { id: 'f', recipientId: 'teacher-7', cancellationKey });
  const target = { recipientId: ID, cancellationKey };
  const before = await stored();
  const foreseen = await previewCancel(ID, await findCancelable(target, parts), parts);
  expect(await stored()).toEqual(before);
  expect(foreseen).toMatchObject({ cancels: 2, tooLate: 0, waiting: 2, moves: 2, earlier: 2 });
  expect(foreseen.slots.map(({ id, from, to }) => [id, from - to])).toEqual([
    ['c', 3_000],
    ['e', 6_000],
  ]);
  expect(await producer.cancel(target)).toEqual({ canceled: 2, tooLate: 0 });
  expect(await previewCancel(ID, await findCancelable({ id: 'a' }, parts), parts)).toMatchObject({ cancels: 1 });
});
