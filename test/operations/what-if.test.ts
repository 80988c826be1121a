import { expect, test } from 'vitest';
import type { Foresight } from '../../src/limiter/redis/foresight.ts';
import { tryOnRecipient, tryOnSample } from '../../src/operations/what-if.ts';
import { HOUR, openLine } from './line.ts';

const DAY = 24 * HOUR;
const POLICY = { rules: [{ max: 2, perMs: HOUR }], minGapMs: 0 };
const LOOSER = { rules: [{ max: 4, perMs: HOUR }], minGapMs: 0 };
const NONE = { rules: [], minGapMs: 0 };

async function openSchool() {
  const line = await openLine(POLICY, { messages: { rules: [{ max: 1, perMs: HOUR }], minGapMs: 0 } });
  const ids = ['a', 'b', 'c', 'd', 'e', 'f'];
  for (const recipientId of ['teacher-1', 'teacher-2', 'teacher-3']) {
    await line.wait('alert', ...ids.map((id) => ({ id: `${recipientId}-${id}`, recipientId })));
  }
  return line;
}

test('tries other general limits on the recipients that wait, and writes nothing', async () => {
  const { parts, stored, limiters } = await openSchool();
  await limiters.alert.limit('teacher-3', { rules: [], minGapMs: DAY });
  const sample = { ...parts, foresight: parts.foresights.alert };
  const before = await stored();
  const found = await tryOnSample({ policy: LOOSER }, sample);
  const all = await tryOnSample({ policy: NONE }, sample);
  const few = await tryOnSample({ policy: NONE }, sample, 1);
  expect(await stored()).toEqual(before);
  expect(found).toMatchObject({ recipients: 3, lookedAt: 18, of: 18, waiting: { now: 12 } });
  // Of each of the first two: c and d go now, e and f in an hour. What is stored for the third holds on.
  expect(found).toMatchObject({ waiting: { then: 8 }, earlier: 8, later: 0, same: 4 });
  expect(found.longestMs.now).toBe(found.longestMs.then);
  expect(all).toMatchObject({ waiting: { then: 4 } });
  expect(few).toMatchObject({ recipients: 1 });
});

test('ends between its steps when nobody waits for it any more', async () => {
  const { parts, wait } = await openLine(POLICY);
  await wait('alert', ...Array.from({ length: 20 }, (_, n) => ({ id: `n${n}`, recipientId: `teacher-${n}` })));
  const leaving = new AbortController();
  let asked = 0;
  const foresee: Foresight['foresee'] = (...all) => {
    asked++;
    leaving.abort(new Error('nobody waits'));
    return parts.foresights.alert.foresee(...all);
  };
  const sample = { ...parts, foresight: { ...parts.foresights.alert, foresee }, signal: leaving.signal };
  await expect(tryOnSample({ policy: LOOSER }, sample)).rejects.toThrow('nobody waits');
  const askedAtOnce = asked;
  expect(askedAtOnce).toBeLessThan(20);
  await expect(tryOnSample({ policy: LOOSER }, sample)).rejects.toThrow('nobody waits');
  expect(asked).toBe(askedAtOnce);
});

test('tries limits on one recipient, in place of those that are stored for it', async () => {
  const { parts, limiters } = await openSchool();
  const foresight = parts.foresights.alert;
  const found = await tryOnRecipient('teacher-1', { policy: LOOSER }, foresight);
  expect(found).toMatchObject({ recipients: 1, waiting: { now: 4, then: 2 }, earlier: 4, later: 0, same: 0 });
  expect(found.longestMs.now - found.longestMs.then).toBeGreaterThan(HOUR / 2);
  expect(found.p50Ms.then).toBe(0);
  expect(found).not.toHaveProperty('countedMs');
  await limiters.alert.limit('teacher-1', { rules: [], minGapMs: DAY });
  const stricter = await tryOnRecipient('teacher-1', { policy: POLICY }, foresight);
  expect(stricter.longestMs.now).toBeGreaterThan(3 * DAY);
  expect(stricter).toMatchObject({ earlier: 4, waiting: { now: 4, then: 4 } });
  const nobody = await tryOnRecipient('teacher-9', { policy: NONE }, foresight);
  expect(nobody).toMatchObject({ waiting: { now: 0, then: 0 }, longestMs: { now: 0, then: 0 }, p99Ms: { now: 0 } });
});

test('tries limits of a category, and says when a window is longer than what is kept', async () => {
  const { parts, wait } = await openSchool();
  const recipientId = 'teacher-4';
  await wait('alert', ...['a', 'b'].map((id) => ({ id: `m-${id}`, recipientId, category: 'messages' })));
  const foresight = parts.foresights.alert;
  const categories = { messages: NONE };
  expect(await tryOnRecipient(recipientId, { categories }, foresight)).toMatchObject({ waiting: { now: 1, then: 0 } });
  const long = { policy: { rules: [{ max: 5, perMs: DAY }], minGapMs: 0 } };
  expect(await tryOnRecipient(recipientId, long, foresight)).toMatchObject({ countedMs: HOUR });
});
