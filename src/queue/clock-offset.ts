import type { Queue } from 'bullmq';
import { createClock, keepClock, wholeMs, type Clock } from '../redis/clock.ts';
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

export interface ClockOffset extends Pick<Clock, 'now'> {
  /**
   * Redis's clock minus this machine's at this moment, in whole milliseconds; 0 until it is known. BullMQ reads `Date.now()`, so
   * what it reads is corrected by this. If somebody sets this machine's clock, the offset is another one at once.
   */
  readonly offsetMs: number;
  /** Resolves when the first measurement has ended, or failed. Never rejects. */
  readonly measured: Promise<void>;
  close(): void;
}

/** A larger difference is reported, because the age of credentials is measured on this machine's clock. */
const APART_MS = 1_000;

const TIME = defineQueueScript<[seconds: string, microseconds: string]>(new URL('time.lua', import.meta.url), 1);

/**
 * Estimates the clock of the queue's Redis, until `close`, and compares this machine's clock with it. While Redis does not
 * answer, the last estimate stays.
 */
export function measureClockOffset({ queue, everyMs, onChange }: ClockOffsetOptions): ClockOffset {
  const clock = createClock();
  const offsetNow = (): number => clock.now() - Date.now();
  let isApart = false;

  const keeper = keepClock(clock, () => readTime(queue), {
    ...(everyMs !== undefined && { everyMs }),
    onReply() {
      const offsetMs = offsetNow();
      if (isApart === Math.abs(offsetMs) > APART_MS) return;
      isApart = !isApart;
      onChange?.({ isApart, offsetMs });
    },
  });

  return {
    now: () => clock.now(),
    get offsetMs() {
      return offsetNow();
    },
    measured: keeper.measured,
    close: () => keeper.stop(),
  };
}

function readTime(queue: Queue): Promise<[seconds: string, microseconds: string]> {
  return TIME(queue, [queue.toKey('delayed')]);
}

/** Redis's clock on the node that has the queue, epoch milliseconds. */
export async function redisNow(queue: Queue): Promise<number> {
  return wholeMs(await readTime(queue));
}
