import { ruleName, type Policy } from '../../src/domain/limits.ts';
import type { Admission, Ask } from '../../src/limiter/limiter.ts';

const GRACE_MS = 1_000;
const NO_SHOW_MS = 60_000;

/** What a limiter answers, but for the instant on this process's own clock. */
export interface Answer {
  readonly kind: Admission['kind'];
  readonly rule: string;
  readonly at?: number;
  readonly waitMs?: number;
  readonly repeated?: boolean;
}

/** A limiter for one recipient that is slow and plain: it keeps everything, and counts instead of looking up ranks. */
export class Reference {
  readonly sent = new Map<string, number>();
  readonly reserved = new Map<string, number>();
  readonly holdMs: number;
  readonly keepMs: number;
  readonly #limits: { readonly name: string; readonly max: number; readonly perMs: number }[];

  constructor({ rules, minGapMs }: Policy) {
    this.#limits = rules.map((rule) => ({ ...rule, name: ruleName(rule) }));
    if (minGapMs > 0) this.#limits.unshift({ name: 'gap', max: 1, perMs: minGapMs });
    const windows = this.#limits.map(({ perMs }) => perMs);
    this.holdMs = windows.length === 0 ? 0 : Math.min(Math.floor(((minGapMs || Math.min(...windows)) - 1) / 2), 150);
    this.keepMs = Math.max(0, ...windows);
  }

  admit(ask: Ask, now: number): Answer {
    const { answer, into } = this.decide(ask, now);
    if (into !== undefined) {
      this.sent.delete(ask.id);
      this.reserved.delete(ask.id);
      this[into.set].set(ask.id, into.at);
    }
    return answer;
  }

  peek(ask: Ask, now: number): Answer {
    return this.decide(ask, now).answer;
  }

  /** The reservations that a newcomer stands behind. */
  queue(now: number, butOf?: string): number[] {
    return [...this.reserved].filter(([id, at]) => id !== butOf && at >= now - GRACE_MS).map(([, at]) => at);
  }

  private decide(ask: Ask, now: number): { answer: Answer; into?: { set: 'sent' | 'reserved'; at: number } } {
    const { id, maxWaitMs = Infinity, renew = false } = ask;
    const sentAt = atLeast(this.sent.get(id), now - this.keepMs);
    const slot = atLeast(this.reserved.get(id), now - NO_SHOW_MS);
    const others = [...this.sent].filter(([other]) => other !== id).map(([, at]) => at);
    const soonest = this.soonest(others, now);
    const wait = (at: number, rule: string): Answer => {
      const waitMs = at - now;
      return waitMs > maxWaitMs ? { kind: 'refused', waitMs, rule } : { kind: 'reserved', at, waitMs, rule };
    };
    const admit = (at: number, rule: string, repeated = false): Answer => ({ kind: 'admitted', at, repeated, rule });

    if (sentAt !== undefined && !renew) return { answer: admit(sentAt, soonest.rule, true) };
    if (slot !== undefined && slot > now + this.holdMs) return { answer: wait(slot, soonest.rule) };
    const due = slot ?? sentAt;
    if (due !== undefined) {
      const at = Math.max(soonest.at, due);
      if (at <= Math.max(now, due) + this.holdMs) return { answer: admit(at, soonest.rule), into: { set: 'sent', at } };
    }
    const floor = Math.max(soonest.at - this.holdMs, ...others);
    const queue = this.queue(now, id).map((at) => Math.max(at, floor));
    const { at: free, rule } = this.soonest([...others, ...queue], now);
    const tail = Math.max(free, soonest.at, ...queue);
    if (tail <= now + this.holdMs) return { answer: admit(tail, rule), into: { set: 'sent', at: tail } };
    const answer = wait(tail, rule);
    return answer.kind === 'refused' ? { answer } : { answer, into: { set: 'reserved', at: tail } };
  }

  /** The first instant from now with fewer than max slots after the beginning of its window, for every limit. */
  private soonest(slots: readonly number[], now: number): { at: number; rule: string } {
    const free = ({ max, perMs }: { max: number; perMs: number }, at: number) =>
      slots.filter((slot) => slot > at - perMs).length < max;
    const candidates = [now, ...this.#limits.flatMap(({ perMs }) => slots.map((slot) => slot + perMs))];
    const at = Math.min(...candidates.filter((t) => t >= now && this.#limits.every((limit) => free(limit, t))));
    const deciding = this.#limits.find((limit) => !free(limit, at - 1)) ?? this.#limits[0];
    return { at, rule: deciding?.name ?? 'none' };
  }
}

function atLeast(at: number | undefined, least: number): number | undefined {
  return at !== undefined && at >= least ? at : undefined;
}
