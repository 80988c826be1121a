import { z } from 'zod';
import { newerThanKnown } from '../domain/format.ts';
import { DEAD_LETTER_REASONS } from '../notification/outcome.ts';

const progressSchema = z.object({
  /** How each device ended, by its label; a device that is not here is still to be tried. */
  devices: z.record(z.string(), z.enum(['delivered', ...DEAD_LETTER_REASONS])).default({}),
  /** When the first device accepted it: epoch milliseconds. Absent if none did, or only before a replay. */
  sentAt: z.number().optional(),
  /** Whether all sends that may have reached a device were silent. Absent before such a send, and if it is never silenced. */
  silenced: z.boolean().optional(),
  /** The tries that failed, the newest last, as a dead letter lists them. */
  attempts: z
    .array(z.object({ at: z.number(), device: z.string().optional(), error: z.string() }))
    .readonly()
    .default([]),
  /** Attempts so far: tries that count. */
  tries: z.number().default(0),
  /** Attempts without an answer, so that it is unknown whether they alerted. */
  ambiguous: z.number().default(0),
  /** True after a timeout, a reset or an `InternalServerError`: a device may have been alerted. Older workers omit this. */
  maybe: z.boolean().optional(),
  /** Passes in a row that were to send and certainly sent nothing (no connection, a missed slot). They are no attempts. */
  unreached: z.number().default(0),
  /** Tries in a row that a server refused because it takes no more for now, or is down. They are no attempts. */
  limited: z.number().optional(),
  /** Under AT_MOST_ONCE: the devices that are being sent to. Those that the next pass still finds here may have been alerted. */
  trying: z.array(z.string()).readonly().optional(),
  /** BullMQ's count of the job's stalls at the time when the job last waited because of stalls. */
  stalls: z.number().optional(),
  /** The number in the id of the next ask for a slot: 0 at first, one more after each send. */
  asks: z.number().default(0),
  /** The last pass asked for a slot, and sent nothing. */
  unsent: z.boolean().optional(),
  /** The digest that was to be sent: of how many notifications, and whether this one is among them. A retry sends the same. */
  digest: z.object({ count: z.number(), own: z.boolean() }).optional(),
  /** How often it was requeued: by the limiter, or by a quota. */
  requeues: z.number().default(0),
  /**
   * The longest cause of its wait while it is requeued: `quiet`, `block`, `gap`, `10/1m`, `fcm:600000/1m`, `sendAfter`. Or
   * `credentials`, while it is deferred because workers lack the credentials for its devices.
   */
  rule: z.string().optional(),
  /** When the block or the quiet time ends, if `rule` is one of them; epoch milliseconds. */
  ruleUntil: z.number().optional(),
  /** When it is due, epoch milliseconds. The lateness of wake-ups is measured against it. */
  dueAt: z.number().optional(),
  /** By account or service, for each quota that had no room: the instant for which the quota promised room; epoch milliseconds. */
  quotaAt: z.record(z.string(), z.number()).optional(),
  /**
   * Since when the job has been deferred: a breaker is open, a provider cannot be reached, or no worker has the credentials.
   * Epoch milliseconds. Time in which no worker ran does not count: if the last try was more than an hour ago, this instant
   * moves to later by the time beyond that hour.
   */
  heldSince: z.number().optional(),
  /** Since when no living worker has had its credentials: epoch milliseconds. Counts only while `rule` is `credentials`. */
  lackedSince: z.number().optional(),
  /** The `heldSince` from before the job was requeued. It is used again if a provider puts the job off again. */
  heldBefore: z.number().optional(),
  /** When the job was last deferred for one of the reasons of `heldSince`; epoch milliseconds. */
  heldAt: z.number().optional(),
  /** The span of its last pass that was traced, as W3C Trace Context. */
  traceparent: z.string().optional(),
  /**
   * Its passes, where HISTORY_MAX is set; notification/story.ts reads them. They are not checked here, since a fault in them
   * must not make the rest unreadable.
   */
  passes: z.unknown().optional(),
  passesLeftOut: z.unknown().optional(),
});

/**
 * What a job remembers between two passes. It is BullMQ's `progress`, so a crash does not lose it. Jobs wait for days, so
 * workers of the next version read it, and during an upgrade workers of the last version do too. So no field is ever renamed,
 * and what older workers would misread gets a new format (domain/format.ts). Three names are older than the glossary: an entry
 * of `attempts` is a try that failed, `tries` counts the attempts, and `heldSince` is the time since which the job is deferred.
 */
export type Progress = Readonly<z.output<typeof progressSchema>>;

/** Any `job.progress` → Progress. If it is unreadable, or a newer version wrote it, the answer is the progress of a new job. */
export function readProgress(raw: unknown): Progress {
  if (raw === 0 || raw === undefined) return NEW; // BullMQ's own default, of every job that is new
  if (newerThanKnown('job progress', raw) !== undefined) return NEW;
  return progressSchema.safeParse(raw).data ?? NEW;
}

const NEW: Progress = progressSchema.parse({});

/** A dead letter lists the newest of its failed tries, this many at most. */
const MAX_ATTEMPTS = 100;

export function withAttempts(progress: Progress, added: Progress['attempts']): Progress {
  if (added.length === 0) return progress;
  return { ...progress, attempts: [...progress.attempts, ...added].slice(-MAX_ATTEMPTS) };
}
