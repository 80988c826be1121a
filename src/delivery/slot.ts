import { setTimeout as sleep } from 'node:timers/promises';
import type { Policy } from '../domain/limits.ts';
import type { Admission, Ask, Limiter } from '../limiter/limiter.ts';
import { paceOf } from '../limiter/pace.ts';

/** A slot that may be used now: under which id it is held, and its instant on both clocks. */
export interface Go {
  readonly kind: 'go';
  readonly askId: string;
  /** Epoch milliseconds on the limiter's clock. */
  readonly at: number;
  /** The same instant on `performance.now()`. */
  readonly sendAt: number;
}

/** What came of asking: go now, or the limiter's no, or an instant that was missed. */
export type Slot =
  | Go
  | { readonly kind: 'no'; readonly admission: Exclude<Admission, { kind: 'admitted' }> }
  | { readonly kind: 'missed' };

export interface SlotParts {
  readonly limiter: Pick<Limiter, 'admit' | 'refund'>;
  readonly timing: Timing;
}

/** How exactly a policy wants its instants met. */
export interface Timing {
  /** Later than this after its instant, a send is worth asking anew, so that the next alert keeps its distance from it. */
  readonly softMs: number;
  /** Later than this it must not go out: a process that was stopped would land on top of the next alert. */
  readonly hardMs: number;
  /** A blocked job is called back this much before its slot, and sleeps the rest in the worker: that absorbs a late wake-up. */
  readonly leadMs: number;
}

/** Asking anew helps against a hiccup, not against a machine that is always late. */
const MAX_SOFT_RENEWALS = 2;
const MAX_RENEWALS = 5;

/**
 * Hard: min(gap / 2, 500 ms); beyond half a gap, the next alert may be nearer than half a gap. Soft: 20 ms; below what a
 * person tells apart, above a busy event loop's usual delay. Lead: 25 ms, more than most wake-ups are late (a few ms on a
 * quiet machine, 20 with two dozen workers on two cores), and at most half of how early the limiter takes a job back.
 */
export function timingOf(policy: Policy): Timing {
  const { minGapMs } = policy;
  const hardMs = minGapMs === 0 ? 500 : Math.min(minGapMs / 2, 500);
  return { softMs: Math.min(20, hardMs), hardMs, leadMs: Math.min(25, Math.floor(paceOf(policy).holdMs / 2)) };
}

/** Asks for a slot and waits the few milliseconds until its instant; an instant that was missed is asked for anew. */
export async function takeSlot(ask: Ask, parts: SlotParts, signal: AbortSignal): Promise<Slot> {
  let current = ask;
  for (let renewals = 0; renewals <= MAX_RENEWALS; renewals++) {
    const admission = await parts.limiter.admit(renewals === 0 ? current : { ...current, renew: true });
    if (admission.kind !== 'admitted') return { kind: 'no', admission };

    const onTime = await sleepUntil(admission.sendAt, signal);
    if (!onTime) break;
    const lateMs = performance.now() - admission.sendAt;
    const bearableMs = renewals < MAX_SOFT_RENEWALS ? parts.timing.softMs : parts.timing.hardMs;
    const { at, sendAt } = admission;
    if (lateMs <= bearableMs) return { kind: 'go', askId: current.id, at, sendAt };
    // Somebody may have sent on that admission before (a worker that died): it stays counted, and this is another ask.
    if (admission.repeated) current = { ...ask, id: `${ask.id}.${renewals + 1}` };
  }
  await parts.limiter.refund(current.recipientId, current.id);
  return { kind: 'missed' };
}

/** False where the signal came first. Timers may fire a fraction of a millisecond early; this does not. */
async function sleepUntil(instant: number, signal: AbortSignal): Promise<boolean> {
  for (let leftMs = instant - performance.now(); leftMs > 0; leftMs = instant - performance.now()) {
    try {
      await sleep(Math.ceil(leftMs), undefined, { signal });
    } catch {
      return false;
    }
  }
  return !signal.aborted;
}
