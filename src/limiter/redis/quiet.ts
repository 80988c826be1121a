import { isUrgent, type CategoryPolicy, type Exemption } from '../../domain/limits.ts';
import type { QuietHours } from '../../domain/quiet-hours.ts';
import type { Window } from '../../domain/quiet-windows.ts';
import type { Ask, QuietView } from '../limiter.ts';
import { createQuietClock, quietView, type Quiet } from '../quiet.ts';

/** What an ask tells admit.lua about quiet hours, and about limits that are skipped. */
export interface Terms {
  /** ARGV[8] to ARGV[10]; empty for an ask without any of them. */
  readonly args: readonly string[];
  /** The quiet times that hold for this ask. */
  readonly windows: readonly Window[];
}

/** The quiet hours of this limiter, and those of recipients that Redis has told. */
export interface QuietTerms {
  of(recipientId: string, category: string | undefined, now: number): Terms;
  /** Reads an answer of admit.lua. True if it tells other quiet hours than were known: ask again. */
  learns(recipientId: string, reply: unknown): boolean;
  /** The quiet times under the quiet hours that are stored for a recipient, or under those of this limiter. */
  windowsOf(stored: string | undefined, now: number): readonly Window[];
  /** The same for `inspect`. */
  viewOf(stored: string | undefined, now: number): { readonly quiet?: QuietView };
}

/** The most recipients with quiet hours of their own that are remembered; Redis tells them again. */
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
    windowsOf: (text, now) => quietOf(text, now)?.windows ?? [],
    viewOf(text, now) {
      const hours = text === undefined ? quietHours : (JSON.parse(text) as QuietHours);
      return hours === undefined
        ? {}
        : { quiet: quietView(hours, text !== undefined, quietOf(text, now)?.windows ?? [], now) };
    },
  };
}

/** The ask with bounds that hold without quiet times: then all of a wait counts. */
export function boundOf(asked: Ask, { windows }: Terms): Ask {
  const { maxWaitMs = Infinity, expiresInMs } = asked;
  if (expiresInMs === undefined || windows.length > 0) return asked;
  return { ...asked, maxWaitMs: Math.min(maxWaitMs, expiresInMs) };
}

/** ARGV[5] of admit.lua, with the bounds that only matter if there are quiet times. */
export function withQuietOptions(text: string, { maxQuietMs, expiresInMs }: Ask, { windows }: Terms): string {
  if (windows.length === 0 || (maxQuietMs === undefined && expiresInMs === undefined)) return text;
  return JSON.stringify({
    ...(text !== '' && (JSON.parse(text) as object)),
    ...bound('maxQuiet', maxQuietMs),
    ...bound('expiresIn', expiresInMs),
  });
}

function bound(name: string, ms = Infinity): object {
  return ms === Infinity ? {} : { [name]: Math.max(0, Math.floor(ms)) };
}
