import type { KeepJobs } from 'bullmq';

/** How long an id stays taken once its notification is done with: enqueuing it again meanwhile is one notification. */
export const ID_KEPT_S = 3600;

/** A bound on memory beside the hour: about 1 kB a job. */
export const KEEP_COMPLETED = { age: ID_KEPT_S, count: 50_000 } as const satisfies KeepJobs;

/** BullMQ's way of saying all of them: a failed job stays until it has become a dead letter. */
export const KEEP_ALL = { count: -1 } as const satisfies KeepJobs;
