import { z } from 'zod';
import { DEAD_LETTER_REASONS, type DeadLetter, type DeadLetterReason } from '../domain/outcome.ts';

const deviceStateSchema = z.enum(['delivered', ...DEAD_LETTER_REASONS]);

const progressSchema = z.object({
  /** How each device ended, by its label; a device that is not here is still to be tried. */
  devices: z.record(z.string(), deviceStateSchema).default({}),
  /** When the first device accepted it: epoch milliseconds. Absent if none did, or only before a replay. */
  sentAt: z.number().optional(),
  /**
   * Of one that may be silenced: whether all that may have reached a device so far went without a sound. Absent while nothing did.
   */
  silenced: z.boolean().optional(),
  /** The tries that failed, the newest last, as a dead letter tells them. */
  attempts: z
    .array(z.object({ at: z.number(), device: z.string().optional(), error: z.string() }))
    .readonly()
    .default([]),
  /** Attempts so far: tries that count. */
  tries: z.number().default(0),
  /** Attempts of which it is unknown whether they alerted. */
  ambiguous: z.number().default(0),
  /** Passes in a row that were to send and certainly sent nothing: no connection, a missed slot. No attempts. */
  unreached: z.number().default(0),
  /** Under AT_MOST_ONCE: the devices that are being sent to. Those that the next pass still finds here may have been alerted. */
  trying: z.array(z.string()).readonly().optional(),
  /** The stalls of the job (BullMQ's count) after which it has waited. */
  stalls: z.number().optional(),
  /** The number in the id of the next ask for a slot: 0 at first, one more after each send. */
  asks: z.number().default(0),
  /** The last pass asked for a slot, got no answer, and sent nothing. */
  unsent: z.boolean().optional(),
  /** What the digest is made of in whose slot it was to be sent. A retry sends the same. */
  digest: z.object({ count: z.number(), own: z.boolean() }).optional(),
  /** How often it was requeued: by the limiter, or by a quota. */
  requeues: z.number().default(0),
  /** The longest cause of its wait, while it is requeued: `quiet`, `block`, `gap`, `10/1m`, `fcm:600000/1m`, `sendAfter`. */
  rule: z.string().optional(),
  /** When the block or the quiet time ends, if `rule` is one of them; epoch milliseconds. */
  ruleUntil: z.number().optional(),
  /** When it is due, epoch milliseconds. The lateness of wake-ups is measured against it. */
  dueAt: z.number().optional(),
  /** By account: when a quota that had no room has room for it, as promised; epoch milliseconds. */
  quotaAt: z.record(z.string(), z.number()).optional(),
  /** Since when it has been deferred because a breaker is open or a provider cannot be reached; epoch milliseconds. */
  heldSince: z.number().optional(),
});

/**
 * What a job remembers between two passes; BullMQ's `progress`, so a crash does not lose it. Jobs wait for days, so
 * workers of the next version read what this one wrote: a field is never renamed. Two names are older than the words of
 * the rest of the code: an entry of `attempts` is a try that failed, and `tries` counts the attempts.
 */
export type Progress = Readonly<z.output<typeof progressSchema>>;
export type DeviceState = z.output<typeof deviceStateSchema>;

/** Whatever `job.progress` holds → Progress; what is not one counts as none. */
export function readProgress(raw: unknown): Progress {
  if (raw === 0 || raw === undefined) return NONE; // BullMQ's own default, of every job that is new
  const result = progressSchema.safeParse(raw);
  return result.success ? result.data : progressSchema.parse({});
}

const NONE: Progress = progressSchema.parse({});

/** A dead letter tells the newest of its failed tries, this many at most. */
const MAX_ATTEMPTS_TOLD = 100;

/** The progress with failed tries added. */
export function withAttempts(progress: Progress, added: Progress['attempts']): Progress {
  if (added.length === 0) return progress;
  return { ...progress, attempts: [...progress.attempts, ...added].slice(-MAX_ATTEMPTS_TOLD) };
}

/**
 * The progress of a job that fails for good: its dead letter is made of it (dead-letters/letter.ts). `dead` is no part of
 * Progress: if the job runs once more because its end was not noted, the new pass decides anew.
 */
export function withDeadLetter(
  progress: Progress,
  reason: DeadLetterReason,
  message: string,
): Progress & { readonly dead: Pick<DeadLetter, 'reason' | 'message'> } {
  return { ...progress, dead: { reason, message } };
}
