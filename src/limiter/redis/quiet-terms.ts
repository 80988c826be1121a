import { isUrgent, type CategoryPolicy, type Exemption } from '../../domain/limits.ts';
import type { QuietHours, Window } from '../../domain/quiet-hours.ts';
import { createQuietClock, type Quiet } from '../pace.ts';

/** What an ask sends to admit.lua about quiet hours, and about limits that are skipped. */
export interface Terms {
  /** ARGV[7] to ARGV[9] of admit.lua; empty if the ask needs none of them. */
  readonly args: readonly string[];
  /** The quiet times that hold for this ask. */
  readonly windows: readonly Window[];
}

/** Knows this limiter's quiet hours, and those of recipients that admit.lua has answered so far. */
export interface QuietTerms {
  of(recipientId: string, category: string | undefined, now: number): Terms;
  /** Reads an answer of admit.lua. True if it says that the recipient has other quiet hours than this process knew: ask again. */
  learns(recipientId: string, reply: unknown): boolean;
  /**
   * The quiet hours of a recipient, and their quiet times around now. `stored`: the recipient's stored quiet hours as JSON; if
   * undefined, the limiter's quiet hours are used.
   */
  read(
    stored: string | undefined,
    now: number,
  ): { readonly hours: QuietHours | undefined; readonly windows: readonly Window[] };
}

/** How many recipients with quiet hours of their own are remembered at most. A forgotten one costs one more ask. */
const MOST_RECIPIENTS = 10_000;
const NONE: Terms = { args: [], windows: [] };

export function createQuietTerms(
  quietHours: QuietHours | undefined,
  categories: Readonly<Record<string, CategoryPolicy>>,
): QuietTerms {
  const clock = createQuietClock();
  const stored = new Map<string, string>();
  const skipped = new Map<string, readonly Exemption[]>(
    Object.entries(categories).flatMap(([name, { exempt }]) => (exempt === undefined ? [] : [[name, exempt]])),
  );

  function quietOf(text: string | undefined, now: number): Quiet | undefined {
    if (text !== undefined) return clock.ofText(text, now);
    return quietHours && clock.of(quietHours, now);
  }

  return {
    of(recipientId, category, now) {
      const own = stored.get(recipientId);
      const exempt = category === undefined ? undefined : skipped.get(category);
      if (own === undefined && quietHours === undefined && exempt === undefined) return NONE;
      const limits = exempt !== undefined && isUrgent({ exempt }) ? exempt.join(' ') : '';
      if (exempt?.includes('quietHours') === true) return { args: ['-', '', limits], windows: [] };
      const { text = '', windows = [] } = quietOf(own, now) ?? {};
      return { args: [text, own ?? '', limits], windows };
    },
    learns(recipientId, reply) {
      if (!Array.isArray(reply) || reply[0] !== 'quiet') return false;
      const text = String(reply[1]);
      stored.delete(recipientId);
      if (text !== '') stored.set(recipientId, text);
      const [oldest] = stored.keys();
      if (stored.size > MOST_RECIPIENTS && oldest !== undefined) stored.delete(oldest);
      return true;
    },
    read: (text, now) => ({
      hours: text === undefined ? quietHours : (JSON.parse(text) as QuietHours),
      windows: quietOf(text, now)?.windows ?? [],
    }),
  };
}
