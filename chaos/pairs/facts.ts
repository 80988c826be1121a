import type { SeenEntry } from '../../demo/providers-child.ts';
import type { ToDevices } from '../../src/notification/notification.ts';
import type { DeviceState } from '../../src/notification/outcome.ts';
import type { Incident, Thaw } from '../fleet.ts';
import type { Leftover } from './leftovers.ts';

// What a run saw from outside of the workers. Only values that JSON can hold, but for sets and maps of the shared parts. Instants are
// epoch milliseconds.

/**
 * One notification. An id that is enqueued again after its end begins another one, under the same id: `n17`, then `n17@2`. This name is
 * in the data that the phones got.
 */
export interface Life {
  readonly name: string;
  readonly id: string;
  /** The place in the order of enqueuing. */
  readonly order: number;
  readonly input: ToDevices;
  /** When the producer was asked, and when Redis had acknowledged it. */
  readonly askedAt: number;
  readonly acknowledgedAt: number;
}

/** From when it was asked for until it was answered. */
interface Asked {
  readonly from: number;
  readonly until: number;
}

/** What an act did, as it was answered. Acts that found nothing to do are left out. */
export type Done = Asked &
  (
    | { readonly kind: 'cancel-id'; readonly id: string; readonly canceled: number; readonly tooLate: number }
    | {
        readonly kind: 'cancel-key';
        readonly recipientId: string;
        readonly key: string;
        readonly canceled: number;
        readonly tooLate: number;
      }
    | {
        readonly kind: 'retract';
        readonly id: string;
        readonly canceled: number;
        readonly retracting: number;
        readonly ended: number;
      }
    | { readonly kind: 'block'; readonly recipientId: string; readonly blockedUntil: number }
    | { readonly kind: 'unblock' | 'limit' | 'unlimit' | 'quiet' | 'unquiet' | 'reset'; readonly recipientId: string }
    | {
        readonly kind: 'replay' | 'discard';
        readonly life: string;
        readonly letterId: string;
        readonly generation: number;
      }
    /** A job that had not ended, as far as the answers of BullMQ say. */
    | { readonly kind: 'remove'; readonly life: string; readonly jobId: string }
    /** An ended job, so that its id is free. What it had returned is in `ends`. */
    | { readonly kind: 'forget'; readonly life: string }
    | { readonly kind: 'again'; readonly id: string; readonly added: boolean }
    | { readonly kind: 'reshard'; readonly to: number; readonly code: number }
    /** It may have been done all the same: only its answer may have been lost. `on`: what was to be canceled or retracted. */
    | {
        readonly kind: 'failed';
        readonly act: string;
        readonly error: string;
        readonly on?: { readonly id: string } | { readonly recipientId: string; readonly key: string };
      }
  );

/** One end of a notification, from the stream of outcomes or from a completed job. */
export interface End {
  readonly life: string;
  /** How often it was replayed before. */
  readonly generation: number;
  /** One of `OUTCOMES`. */
  readonly outcome: string;
  /** The id of the notification that goes in its place. */
  readonly by?: string;
  readonly reason?: string;
  /** Of a completed job. */
  readonly devices?: Readonly<Record<string, DeviceState>>;
  readonly at: number;
  readonly from: 'stream' | 'job';
}

/** A dead letter that there is at the end. */
export interface DeadAtEnd {
  readonly life: string;
  readonly letterId: string;
  readonly reason: string;
  readonly generation: number;
}

/** One line of a worker's log that is about a job. */
export interface Line {
  /** Epoch milliseconds, on the clock of this machine. */
  readonly at: number;
  /** The name of the worker's log. */
  readonly log: string;
  readonly jobId: string;
  /** How the pass ended; absent in other lines. */
  readonly outcome?: string;
  /** What else the line says, in short. */
  readonly text: string;
}

/** A line of a recipient, as it was at one instant. All instants are on Redis's clock. */
export interface LineLook {
  readonly recipientId: string;
  readonly kind: 'alert' | 'background';
  readonly now: number;
  /** The first of those that wait; absent if nobody does. */
  readonly first?: { readonly entry: string; readonly at: number };
  /** The newest sent slots, oldest first. */
  readonly sent: readonly number[];
  /** Max and window (ms) of each limit in force, the gap among them; undefined for the general ones. */
  readonly limits?: readonly (readonly [max: number, perMs: number])[];
  readonly blockedUntil?: number;
  /** Quiet hours are stored for the recipient. In a run they hold all the time that they are stored. */
  readonly isQuiet?: true;
}

export interface PairsFacts {
  readonly lives: readonly Life[];
  readonly done: readonly Done[];
  /** In the order of their instants. */
  readonly ends: readonly End[];
  readonly dead: readonly DeadAtEnd[];
  /** Jobs that have not ended. */
  readonly queued: readonly string[];
  /** What the providers received; `delayMs` counts from when it may have left. */
  readonly entries: readonly SeenEntry[];
  /** Kills, long freezes and lost locks, with the ids that workers had. */
  readonly incidents: readonly Incident[];
  readonly thaws: readonly Thaw[];
  /** The passes, from the logs of all workers. */
  readonly lines: readonly Line[];
  /** The lines of all recipients while the run went on. */
  readonly looks: readonly LineLook[];
  readonly leftovers: readonly Leftover[];
  /** When the keys were read. */
  readonly readAt: number;
  readonly crashes: readonly number[];
  readonly drainMs: number;
  readonly tookMs: number;
}

/** A fault: a sentence that names the ids, and the notifications whose stories show the cause. */
export interface Fault {
  readonly rule: 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8;
  readonly text: string;
  readonly lives: readonly string[];
}

/** What was excused, by its reason; each is counted. */
export type Excused = Record<string, number>;

export function excuse(excused: Excused, why: string, times = 1): void {
  if (times > 0) excused[why] = (excused[why] ?? 0) + times;
}

/** Names of the notifications that began before an instant under an id, the latest one. */
export function lifeAt(lives: readonly Life[], id: string, at: number): Life | undefined {
  return (
    lives.findLast((life) => life.id === id && life.askedAt <= at + CLOCK_MS) ?? lives.find((life) => life.id === id)
  );
}

/** A job's time is read in whole milliseconds, and of several in one burst it is a little ahead. */
const CLOCK_MS = 50;
