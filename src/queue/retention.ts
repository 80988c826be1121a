import type { KeepJobs } from 'bullmq';

/** How long an id stays taken after its notification has ended: enqueuing it again within this time adds nothing. */
export const ID_KEPT_S = 3600;

/** The count bounds the memory: about 1 kB a job. */
export const KEEP_COMPLETED = { age: ID_KEPT_S, count: 50_000 } as const satisfies KeepJobs;

/** -1 keeps all: a failed job must stay until it has become a dead letter. */
export const KEEP_ALL = { count: -1 } as const satisfies KeepJobs;
