/** What the npm package exports: enqueue notifications, limit anything per recipient. */
export { InputError, formatFault, type Fault } from './domain/faults.ts';
export { ruleName, type Policy, type Rule } from './domain/limits.ts';
export {
  parseNotification,
  type Device,
  type Notification,
  type NotificationInput,
  type ParsedNotification,
  type Platform,
} from './domain/notification.ts';
export { DEAD_LETTER_REASONS, OUTCOMES, type DeadLetter, type DeadLetterReason } from './domain/outcome.ts';
export { expressLimit, type ExpressLimitOptions } from './http/express.ts';
export { fastifyLimit, type FastifyLimitOptions } from './http/fastify.ts';
export { httpLimit, type Decision, type HttpLimitOptions } from './http/limit.ts';
export type { Problem, Refusal } from './http/problem.ts';
export { LimiterUnavailableError } from './redis/deadline.ts';
export type { OnUnavailable } from './limiter/fallback.ts';
export type {
  Admission,
  Admitted,
  Ask,
  Block,
  Follow,
  Held,
  Inspection,
  Limiter,
  Moved,
  Oversight,
  Refused,
  Reserved,
  RuleStanding,
  SlotView,
  Standing,
} from './limiter/limiter.ts';
export { createMemoryLimiter, type MemoryLimiterOptions } from './limiter/memory/memory-limiter.ts';
export { createMemoryQuota, type MemoryQuotaOptions } from './quota/memory-quota.ts';
export type { Over, Quota, QuotaAnswer, QuotaTerms, QuotaUse, Taken } from './quota/quota.ts';
export { createRedisQuota, type RedisQuotaOptions } from './quota/redis-quota.ts';
export { createRedisLimiter, type RedisLimiterOptions } from './limiter/redis/redis-limiter.ts';
export { RedisAwayError } from './redis/connection.ts';
export {
  createProducer,
  type Enqueued,
  type EnqueueInput,
  type Producer,
  type ProducerOptions,
} from './queue/producer.ts';
export type { ScriptedAnswer } from './sandbox/answers/scripted.ts';
export type { ApnsReason } from './sandbox/apns/reasons.ts';
export type { FcmReason } from './sandbox/fcm/reasons.ts';
export type { Sandbox, SandboxOptions, SandboxPorts, SandboxServer } from './sandbox/interface.ts';
export type { JournalEntry, SandboxJournal, WaitOptions } from './sandbox/journal.ts';
export { NO_LATENCY, type Latency } from './sandbox/loopback/timing.ts';
export { startEmbeddedRedis, type EmbeddedRedis, type EmbeddedRedisOptions } from './sandbox/redis/embedded-redis.ts';
export { startSandbox } from './sandbox/start.ts';
