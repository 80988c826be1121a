import type { Queue } from 'bullmq';
import { defineQueueScript } from '../redis/scripts.ts';

export interface ClockOffsetOptions {
  /** Only the queue's connection is used. */
  readonly queue: Queue;
  readonly everyMs?: number;
  /** Called when the clocks begin to differ by more than a second, and when they no longer do. */
  readonly onChange?: (change: ClockChange) => void;
}

export interface ClockChange {
  /** Whether the clocks differ by more than a second now. */
  readonly isApart: boolean;
  readonly offsetMs: number;
}

export interface ClockOffset {
  /** Redis's clock minus this machine's, in whole milliseconds; 0 until it is known. */
  readonly offsetMs: number;
  /** Resolves when the first measurement has ended, or failed. Never rejects. */
  readonly measured: Promise<void>;
  close(): void;
}

const EVERY_MS = 30_000;
/** How many answers are measured; the fastest one is used. */
const SAMPLES = 5;
/** A larger difference is reported, because expiry and the age of credentials are measured on this machine's clock. */
const APART_MS = 1_000;
/** `Date.now()` is rounded down to a whole millisecond. */
const RESOLUTION_MS = 1;

const TIME = defineQueueScript<[seconds: string, microseconds: string]>(new URL('time.lua', import.meta.url), 1);

/**
 * Measures at regular times, until `close`, how far this machine's clock and Redis's clock differ. While Redis does not answer,
 * the last value stays.
 */
export function measureClockOffset({ queue, everyMs = EVERY_MS, onChange }: ClockOffsetOptions): ClockOffset {
  let offsetMs = 0;
  let isApart = false;
  let isClosed = false;
  let timer: NodeJS.Timeout | undefined;

  async function measure(): Promise<void> {
    const sample = await bestOf(queue, SAMPLES).catch(() => undefined);
    if (isClosed) return;
    timer = setTimeout(() => void measure(), everyMs);
    // Ignore a difference that the round trip alone can explain: so if Redis is on the same machine, the offset stays 0.
    if (sample === undefined || Math.abs(sample.offsetMs - offsetMs) <= sample.errorMs) return;
    offsetMs = Math.round(sample.offsetMs);
    if (isApart === Math.abs(offsetMs) > APART_MS) return;
    isApart = !isApart;
    onChange?.({ isApart, offsetMs });
  }

  return {
    get offsetMs() {
      return offsetMs;
    },
    measured: measure(),
    close: () => {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}

interface Sample {
  readonly offsetMs: number;
  /** The most by which the offset may be wrong. */
  readonly errorMs: number;
}

async function bestOf(queue: Queue, count: number): Promise<Sample> {
  let best = await sampleOf(queue);
  for (let taken = 1; taken < count; taken++) {
    const next = await sampleOf(queue);
    if (next.errorMs < best.errorMs) best = next;
  }
  return best;
}

/** Redis's clock on the node that has the queue, epoch milliseconds. */
export async function redisNow(queue: Queue): Promise<number> {
  const [seconds, microseconds] = await TIME(queue, [queue.toKey('delayed')]);
  return Number(seconds) * 1_000 + Math.floor(Number(microseconds) / 1_000);
}

/** Redis reads its clock at some instant of the round trip. The middle is taken: it is wrong by at most half of the trip. */
async function sampleOf(queue: Queue): Promise<Sample> {
  const askedAt = performance.now();
  const [seconds, microseconds] = await TIME(queue, [queue.toKey('delayed')]);
  const halfTripMs = (performance.now() - askedAt) / 2;
  const redisNow = Number(seconds) * 1_000 + Number(microseconds) / 1_000 + halfTripMs;
  return { offsetMs: redisNow - Date.now(), errorMs: halfTripMs + RESOLUTION_MS };
}
