import { z } from 'zod';
import { PLATFORMS } from '../domain/notification.ts';
import { DEAD_LETTER_REASONS } from '../domain/outcome.ts';

const deviceStateSchema = z.enum(['delivered', ...DEAD_LETTER_REASONS]);

const progressSchema = z.object({
  /** How each device ended, by its label; a device that is not here is still to be tried. */
  devices: z.record(z.string(), deviceStateSchema).default({}),
  /** The failed attempts so far, the newest last. */
  attempts: z
    .array(z.object({ at: z.number(), device: z.string().optional(), error: z.string() }))
    .readonly()
    .default([]),
  /** Delivery attempts that counted toward the policy's. */
  tries: z.number().default(0),
  /** Attempts of which nobody knows whether they alerted. */
  ambiguous: z.number().default(0),
  /** Passes in a row that wanted to send and certainly sent nothing: no connection, a missed slot. They cost no attempt. */
  unreached: z.number().default(0),
  /** Under AT_MOST_ONCE: the devices that are being sent to, by label. Still there in the next pass, they may have been alerted. */
  trying: z.array(z.string()).readonly().optional(),
  /** Stalls of the job (BullMQ's count) that a wait has followed. */
  stalls: z.number().optional(),
  /** Slots asked for under a new id: the first ask is 0, each further attempt one more. */
  asks: z.number().default(0),
  /** The last pass asked for a slot, had no answer, and sent nothing. */
  unsent: z.boolean().optional(),
  /** How often the limiter sent it back. */
  requeues: z.number().default(0),
  /** The limiter's rule that sent it back, while it waits for its slot: `gap`, `10/1m`. */
  rule: z.string().optional(),
  /** When it comes back, epoch milliseconds: what the lateness of wake-ups is measured against. */
  dueAt: z.number().optional(),
  /** When there is room for it in the quota of a provider that was over its own; epoch milliseconds. */
  quotaAt: z.partialRecord(z.enum(PLATFORMS), z.number()).optional(),
  /** Since when it has been kept for a provider that is paused or cannot be reached. */
  heldSince: z.number().optional(),
});

/** What a job remembers between two passes through a worker; kept in BullMQ's `progress`, so a crash does not lose it. */
export type Progress = Readonly<z.output<typeof progressSchema>>;
export type DeviceState = z.output<typeof deviceStateSchema>;

/** Whatever `job.progress` holds → Progress; a foreign one counts as none. */
export function readProgress(raw: unknown): Progress {
  if (raw === 0 || raw === undefined) return NONE; // BullMQ's own default, of every job that is new
  const result = progressSchema.safeParse(raw);
  return result.success ? result.data : progressSchema.parse({});
}

const NONE: Progress = progressSchema.parse({});

/** A dead letter tells at most this many attempts, the newest ones. */
const MAX_ATTEMPTS_TOLD = 100;

/** The progress with failed attempts added. */
export function withAttempts(progress: Progress, added: Progress['attempts']): Progress {
  if (added.length === 0) return progress;
  return { ...progress, attempts: [...progress.attempts, ...added].slice(-MAX_ATTEMPTS_TOLD) };
}
