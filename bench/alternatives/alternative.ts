import type { Policy } from '../../src/domain/limits.ts';

/** The ways to deliver that are compared, in the order of the tables. */
export const ALTERNATIVES = ['plain', 'bullmqWindow', 'bullmqGap', 'rolling', 'pushpacer'] as const;
export type Alternative = (typeof ALTERNATIVES)[number];

export const NAMES: Readonly<Record<Alternative, string>> = {
  plain: 'plain BullMQ worker',
  bullmqWindow: "BullMQ's limiter, 10 per 3 s",
  bullmqGap: "BullMQ's limiter, 1 per 300 ms",
  rolling: 'rolling-rate-limiter in a worker',
  pushpacer: 'pushpacer',
};

/** Worker processes of each, and the jobs that each process has under way at once. */
export const WORKERS = 3;
export const CONCURRENCY = 50;

/** What each is to keep for every recipient. */
export const POLICY: Policy = { rules: [{ max: 10, perMs: 3_000 }], minGapMs: 250 };
