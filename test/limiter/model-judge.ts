import { expect } from 'vitest';
import type { Admission, Moved } from '../../src/limiter/limiter.ts';
import { LONGEST_MS } from './model-steps.ts';
import type { Reference } from './reference.ts';
import { countsIn, inOrder, type Answer, type KeptSlot } from './reference-rules.ts';
import type { StoredScope, StoredSet } from './stored.ts';

/** What Redis is compared with. */
export interface Expected {
  readonly reference: Reference;
  readonly now: number;
  /** Whether the last call has written, so that every expiry is exact. */
  readonly wasWritten: boolean;
}

/** Nothing beyond what the reference holds in this scope, and an expiry for every key. */
export function expectScope(
  { sent, reserved, held }: StoredScope,
  category: string | undefined,
  { reference, now, wasWritten }: Expected,
): void {
  const has = (slot: KeptSlot) => countsIn({ category }, slot);
  const isKept = (at: number) => at >= now - LONGEST_MS;
  const counted = reference.sent.filter(has).map(({ at }) => at);
  const found = sent.slots.map(([, at]) => at);
  expect(found.filter(isKept)).toEqual(counted.filter(isKept).sort((a, b) => a - b));
  expect(new Set(sent.slots.map(([member]) => member)).size).toBe(sent.slots.length);

  const isAwaited = ({ at }: { readonly at: number }) => at >= now - 60_000;
  const waiting = reference.reserved.filter((slot) => has(slot) && isAwaited(slot));
  const views = (set: StoredSet) => inOrder(set.slots.map(([id, at]) => ({ id, at })).filter(isAwaited));
  const expected = (isHeld: boolean) =>
    inOrder(waiting.filter((slot) => (slot.isHeld ?? false) === isHeld).map(({ id = '', at }) => ({ id, at })));
  expect(views(reserved)).toEqual(expected(false));
  if (category !== undefined) expect(views(held)).toEqual(expected(true));

  if (!wasWritten) return;
  for (const [{ slots, expiresAt }, keepMs] of [
    [sent, LONGEST_MS],
    [reserved, 60_000],
    [held, 60_000],
  ] as const) {
    const last = slots.at(-1)?.[1];
    expect(expiresAt === undefined).toBe(last === undefined);
    // A refund moves the expiry by what is left of it, which Redis rounds to whole milliseconds.
    if (last !== undefined) expect(Math.abs(Number(expiresAt) - (last + keepMs))).toBeLessThanOrEqual(2);
  }
}

export function byId(moved: readonly Moved[]): Moved[] {
  return moved.toSorted((a, b) => ((a.id ?? '') < (b.id ?? '') ? -1 : 1));
}

export function pick(ids: readonly string[], which: number): string | undefined {
  return ids[Math.floor((which * ids.length) / 100)];
}

export function withoutSendAt(admission: Admission): Answer {
  return Object.fromEntries(Object.entries(admission).filter(([field]) => field !== 'sendAt')) as unknown as Answer;
}
