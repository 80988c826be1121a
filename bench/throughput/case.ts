import { DEFAULT_LATENCY, NO_LATENCY, type Latency } from '../../sandbox/loopback/timing.ts';

/** The platforms that are measured. */
export type BenchPlatform = 'apns' | 'fcm';

/** Which provider, and how long it takes to answer. */
export interface Case {
  readonly platform: BenchPlatform;
  readonly latency: Latency;
  /** What ends the names of its figures: `''`, or `40ms` where answers take time. */
  readonly suffix: '' | '40ms';
  /** `APNs, 40 ms` */
  readonly name: string;
}

/** The same sends with answers that leave at once, and with the latencies that the real providers have. */
export const CASES: readonly Case[] = [
  { platform: 'apns', latency: NO_LATENCY, suffix: '', name: 'APNs, 0 ms' },
  { platform: 'fcm', latency: NO_LATENCY, suffix: '', name: 'FCM, 0 ms' },
  { platform: 'apns', latency: DEFAULT_LATENCY, suffix: '40ms', name: 'APNs, 40 ms' },
  { platform: 'fcm', latency: DEFAULT_LATENCY, suffix: '40ms', name: 'FCM, 40 ms' },
];

/** Which worker: BullMQ's own with one raw HTTP/2 session, or pushpacer's. */
export type Side = 'plain' | 'pushpacer';

/** Jobs that one worker process has under way at once. */
export const CONCURRENCY = 100;
