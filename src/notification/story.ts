import { z } from 'zod';

/**
 * The story of a notification lists its passes. Workers write it if HISTORY_MAX is set: into the job while the notification
 * waits, later into the dead letter or the history. It contains only ids, codes and instants, never a token or a text of an
 * alert.
 */

/** A story keeps this many of the newest passes. Older passes are only counted. */
export const MOST_PASSES = 20;
/** The longest text in a story. */
export const MOST_TEXT = 300;

/** One send to one device. */
const sendSchema = z.object({
  /** `apns#0` */
  device: z.string(),
  /** The provider's own code, or why there was no answer: `http-200`, `Unregistered`, `timeout`. */
  code: z.string(),
  /** From the hand-over to the answer, milliseconds. */
  tookMs: z.number(),
  /** True if the provider accepted the push; otherwise absent. */
  accepted: z.literal(true).optional(),
});

/** One pass. Instants are epoch milliseconds on Redis's clock, durations milliseconds. */
const passSchema = z.object({
  /** When the pass began; for `replayed`, when the replay was done. */
  at: z.number(),
  /** `web-1:4711`: the host and the process id of the worker. */
  worker: z.string().optional(),
  /** How the pass ended: the kind of a `Result`. An entry `replayed` is not a pass: it says that a dead letter was replayed. */
  result: z.string(),
  /** What the notification waits for: `gap`, `10/1m`, `quiet`, `block`, `sendAfter`, a quota. */
  rule: z.string().optional(),
  /** When the block or the quiet time ends. */
  ruleUntil: z.number().optional(),
  /** How many notifications of the recipient waited before this one. */
  before: z.number().optional(),
  /** When the notification was due again: at its slot, or at the next try. */
  until: z.number().optional(),
  /** Why the notification was deferred, or why it is to be tried again. */
  code: z.string().optional(),
  /** For `superseded` and `merged`: the id of the notification that is sent in its place. */
  by: z.string().optional(),
  /** For a dead letter: its reason. */
  reason: z.string().optional(),
  /** For a dead letter: what went wrong, for people to read. */
  message: z.string().optional(),
  /** For `replayed`: since when the notification was a dead letter. */
  deadAt: z.number().optional(),
  /** The slot in which the notification was sent. */
  slot: z.number().optional(),
  /** How long after the slot the first request was handed over. */
  lateMs: z.number().optional(),
  /** How long after the due time a worker took the job. */
  wokenLateMs: z.number().optional(),
  /** How often the job had stalled by then, because its worker died or stood still. */
  stalls: z.number().optional(),
  /** Sent without sound, vibration or banner. */
  silenced: z.literal(true).optional(),
  /** It ended without a send, but an earlier pass was interrupted, or had no answer. */
  maybeShown: z.literal(true).optional(),
  /** At most one send for each device, failed sends first. */
  sends: z.array(sendSchema).readonly().optional(),
});

/** One send of a pass: a device, and how its provider answered. */
export type StorySend = Readonly<z.output<typeof sendSchema>>;
/** One pass of a notification, with its result. */
export type StoryPass = Readonly<z.output<typeof passSchema>>;

/** The passes of a story, the oldest first. */
export interface Passes {
  /** The newest 20. */
  readonly passes?: readonly StoryPass[];
  /** How many older passes were left out. */
  readonly passesLeftOut?: number;
}

/** Reads the passes from a job's progress, a dead letter or an entry of the history. What is not a pass is left out. */
export function readPasses(holder: unknown): Passes {
  const { passes, passesLeftOut } = (holder ?? {}) as Readonly<Record<string, unknown>>;
  if (!Array.isArray(passes)) return {};
  const read = passes.slice(-MOST_PASSES).flatMap((pass) => passSchema.safeParse(pass).data ?? []);
  const leftOut = typeof passesLeftOut === 'number' ? passesLeftOut : 0;
  return { passes: read, ...(leftOut > 0 && { passesLeftOut: leftOut }) };
}

/** The passes with one more; if there are too many, the oldest are left out. */
export function withPass({ passes = [], passesLeftOut = 0 }: Passes, pass: StoryPass): Passes {
  const all = [...passes, pass];
  const leftOut = passesLeftOut + Math.max(0, all.length - MOST_PASSES);
  return { passes: all.slice(-MOST_PASSES), ...(leftOut > 0 && { passesLeftOut: leftOut }) };
}

/**
 * Who enqueued a notification, in which trace, and when it was enqueued first, before any replay. A job has these fields in its
 * options.
 */
export interface Origin {
  /** The name of a token of the HTTP API, `pushpacer enqueue`, or a name that a producer gave. */
  readonly enqueuedBy?: string;
  /** Epoch milliseconds. Absent if the notification was not replayed. */
  readonly firstEnqueuedAt?: number;
  /** The span in which the notification was enqueued, as W3C Trace Context. Absent if its producer is not traced. */
  readonly traceparent?: string;
  /** The `tracestate` of W3C Trace Context that belongs to `traceparent`. */
  readonly tracestate?: string;
}

/** When the notification of a job was enqueued first: before any replay. */
export function firstEnqueuedAtOf({ opts, timestamp }: { readonly opts: unknown; readonly timestamp: number }): number {
  return originOf(opts).firstEnqueuedAt ?? timestamp;
}

/** Reads the origin from a job's options or from a dead letter. */
export function originOf(holder: unknown): Origin {
  const { enqueuedBy, firstEnqueuedAt, traceparent, tracestate } = (holder ?? {}) as Readonly<Record<string, unknown>>;
  const isTraced = typeof traceparent === 'string' && TRACEPARENT.test(traceparent);
  return {
    ...(typeof enqueuedBy === 'string' && ENQUEUED_BY.test(enqueuedBy) && { enqueuedBy }),
    ...(typeof firstEnqueuedAt === 'number' && { firstEnqueuedAt }),
    ...(isTraced && { traceparent }),
    ...(isTraced && typeof tracestate === 'string' && TRACESTATE.test(tracestate) && { tracestate }),
  };
}

/** `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`: version, trace, span, flags (w3.org/TR/trace-context). */
export const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;
/** W3C asks to pass on at least 512 characters; a longer value is left out. */
const TRACESTATE = /^[\x20-\x7e]{1,512}$/;

/** No control characters, and no characters that change the direction of writing. */
export const ENQUEUED_BY = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]{1,100}$/u;
export const ENQUEUED_BY_FORMAT = 'a name of 1 to 100 letters, digits, spaces and punctuation';

/** The story of a dead letter. */
export interface LetterStory extends Passes, Origin {
  /** When the notification was enqueued first, before any replay: epoch milliseconds. */
  readonly firstEnqueuedAt: number;
}
