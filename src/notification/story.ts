import { z } from 'zod';

/**
 * The story of a notification: its passes, as workers write them where HISTORY_MAX is set. While the notification waits they are in
 * its job, then in its dead letter or in the history. Ids, codes and instants only, never a token or a text of an alert.
 */

/** The newest passes of a story are kept, this many; the others are only counted. */
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
  /** The provider took it. Absent if it did not. */
  accepted: z.literal(true).optional(),
});

/** One pass. Instants are epoch milliseconds on the worker's clock, durations milliseconds. */
const passSchema = z.object({
  /** When it began; of `replayed`, when that was done. */
  at: z.number(),
  /** `web-1:4711`: the host, and the process. */
  worker: z.string().optional(),
  /** How it ended: the kind of a `Result`. `replayed` is no pass: it was a dead letter since `deadAt`, and was replayed. */
  result: z.string(),
  /** What it waits for: `gap`, `10/1m`, `quiet`, `block`, `sendAfter`, a quota. */
  rule: z.string().optional(),
  /** When the block or the quiet time ends. */
  ruleUntil: z.number().optional(),
  /** How many were before it in its line. */
  before: z.number().optional(),
  /** Until when it was put back: its slot, or the next try. */
  until: z.number().optional(),
  /** Why it was deferred or is tried again. */
  code: z.string().optional(),
  /** Of `superseded` and `merged`: the notification that goes in its place. */
  by: z.string().optional(),
  /** Of a dead letter: why. */
  reason: z.string().optional(),
  /** Of a dead letter: what went wrong, for people to read. */
  message: z.string().optional(),
  /** Of `replayed`: since when it was a dead letter. */
  deadAt: z.number().optional(),
  /** The slot that it was sent in. */
  slot: z.number().optional(),
  /** How long after its slot it was handed over to be sent. */
  lateMs: z.number().optional(),
  /** How long after the time that it was put back to a worker took it. */
  wokenLateMs: z.number().optional(),
  /** How often its workers had lost it by then: they died, or stood still. */
  stalls: z.number().optional(),
  /** Sent without sound, vibration or banner. */
  silenced: z.literal(true).optional(),
  /** One for each device at most; those that failed first. */
  sends: z.array(sendSchema).readonly().optional(),
});

/** One send, as a story has it. */
export type StorySend = Readonly<z.output<typeof sendSchema>>;
/** One pass, as a story has it. */
export type StoryPass = Readonly<z.output<typeof passSchema>>;

/** The passes of a story, the oldest first. */
export interface Passes {
  /** The newest 20. */
  readonly passes?: readonly StoryPass[];
  /** How many came before these. */
  readonly passesLeftOut?: number;
}

/** Reads the passes of a job's progress, of a dead letter or of a line of the history. What is not one is left out. */
export function readPasses(holder: unknown): Passes {
  const { passes, passesLeftOut } = (holder ?? {}) as Readonly<Record<string, unknown>>;
  if (!Array.isArray(passes)) return {};
  const read = passes.slice(-MOST_PASSES).flatMap((pass) => passSchema.safeParse(pass).data ?? []);
  const leftOut = typeof passesLeftOut === 'number' ? passesLeftOut : 0;
  return { passes: read, ...(leftOut > 0 && { passesLeftOut: leftOut }) };
}

/** The passes with one more; the oldest go where there are too many. */
export function withPass({ passes = [], passesLeftOut = 0 }: Passes, pass: StoryPass): Passes {
  const all = [...passes, pass];
  const leftOut = passesLeftOut + Math.max(0, all.length - MOST_PASSES);
  return { passes: all.slice(-MOST_PASSES), ...(leftOut > 0 && { passesLeftOut: leftOut }) };
}

/** Who enqueued it, in which trace, and when it was enqueued first, before any replay. A job has them in its options. */
export interface Origin {
  /** The name of a token of the HTTP API, `pushpacer enqueue`, or a name that a producer gave. */
  readonly enqueuedBy?: string;
  /** Epoch milliseconds; absent where it was not replayed. */
  readonly firstEnqueuedAt?: number;
  /** The span in which it was enqueued, as W3C Trace Context; absent where its producer is not traced. */
  readonly traceparent?: string;
  /** What belongs to that, of the tracing systems on the way. */
  readonly tracestate?: string;
}

/** When the notification of a job was enqueued first: before any replay. */
export function firstEnqueuedAtOf({ opts, timestamp }: { readonly opts: unknown; readonly timestamp: number }): number {
  return originOf(opts).firstEnqueuedAt ?? timestamp;
}

/** Reads it from a job's options or from a dead letter. */
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
/** W3C asks to pass on at least so many characters; a longer one is left out. */
const TRACESTATE = /^[\x20-\x7e]{1,512}$/;

/** No control characters, and none that turn the direction of writing. */
export const ENQUEUED_BY = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]{1,100}$/u;
export const ENQUEUED_BY_FORMAT = 'a name of 1 to 100 letters, digits, spaces and punctuation';

/** The story of a dead letter. */
export interface LetterStory extends Passes, Origin {
  /** When it was enqueued first, before any replay: epoch milliseconds. */
  readonly firstEnqueuedAt: number;
}
