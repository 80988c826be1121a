import { auditKey } from '../queue/names.ts';
import type { Connection } from '../redis/connection.ts';

/** An action of an operator: who did what, to whom, and with what result. */
export interface AuditEntry {
  /** The id of the entry in the stream. */
  readonly id: string;
  /** Epoch milliseconds on Redis's clock. */
  readonly at: number;
  /** The name of the token; `local` for a console without a login; `root (terminal)`, a name that no token can have. */
  readonly who: string;
  /** What was done: `recipient block`, `dead-letters replay`. */
  readonly action: string;
  /** To what it was done: a recipient, a notification, a filter. */
  readonly on: string;
  /**
   * Counts and settings, such as `{ moved: 14, until: 1795… }`, and the reason of a block or the text of a note. Never a token
   * or a text of an alert.
   */
  readonly facts: Readonly<Record<string, string | number | boolean>>;
}

export interface Audit {
  write(entry: Omit<AuditEntry, 'id' | 'at'>): Promise<void>;
  /** The newest entries first. @param before the id of an entry: only older ones */
  read(options: { readonly before?: string | undefined; readonly count: number }): Promise<readonly AuditEntry[]>;
}

/** About how many entries are kept. */
const MOST_KEPT = 10_000;
const MOST_TEXT = 1_000;

/** The stream `{pushpacer}:audit`. `prefix` is QUEUE_PREFIX itself: there is one for all shards. */
export function createAudit(redis: Connection, prefix: string): Audit {
  const key = auditKey(prefix);
  return {
    async write({ who, action, on, facts }) {
      const fields = { who, action, on: on.slice(0, MOST_TEXT), facts: JSON.stringify(facts) };
      await redis.xadd(key, 'MAXLEN', '~', MOST_KEPT, '*', ...Object.entries(fields).flat());
    },
    async read({ before, count }) {
      const found = await redis.xrevrange(key, before === undefined ? '+' : `(${before}`, '-', 'COUNT', count);
      return found.map(([id, fields]) => entryOf(id, fields));
    },
  };
}

function entryOf(id: string, fields: readonly string[]): AuditEntry {
  const read: Record<string, string> = {};
  for (let index = 0; index < fields.length; index += 2) read[fields[index] ?? ''] = fields[index + 1] ?? '';
  const { who = '', action = '', on = '', facts = '{}' } = read;
  return { id, at: Number.parseInt(id, 10), who, action, on, facts: JSON.parse(facts) as AuditEntry['facts'] };
}
