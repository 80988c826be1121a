/**
 * What the npm package exports. Begin with one of these:
 *
 * - {@link createProducer} enqueues notifications, and {@link EnqueueInput} has every field of a notification.
 * - {@link createRedisLimiter} limits anything per recipient, and {@link Limiter} says what it promises.
 * - {@link expressLimit}, {@link fastifyLimit} and {@link httpLimit} limit HTTP requests.
 * - {@link createRedisQuota} shares one limit between all processes.
 *
 * @packageDocumentation
 */
import './domain/needs-node.ts';
export { InputError, formatFault, type Fault } from './domain/faults.ts';
export { ruleName, type CategoryPolicy, type Exemption, type Policy, type Rule } from './domain/limits.ts';
export type { Day, QuietHours, QuietTime } from './domain/quiet-hours.ts';
export {
  parseNotification,
  type Alert,
  type AndroidFields,
  type ApnsDevice,
  type ApnsFields,
  type ApnsSound,
  type Channel,
  type DigestFields,
  type Device,
  type FcmDevice,
  type FcmFields,
  type LiveActivity,
  type LiveActivityFields,
  type JsonObject,
  type JsonValue,
  type Notification,
  type NotificationInput,
  type ParsedNotification,
  type Platform,
  type WebpushAction,
  type WebpushDevice,
  type WebpushFields,
} from './notification/notification.ts';
export {
  DEAD_LETTER_REASONS,
  OUTCOMES,
  type DeadDigest,
  type DeadLetter,
  type DeadLetterReason,
  type DeviceState,
  type FailedAttempt,
  type OutcomeName,
} from './notification/outcome.ts';
export type { LetterStory, Origin, Passes, StoryPass, StorySend } from './notification/story.ts';
export {
  expressLimit,
  type ConnectMiddleware,
  type ConnectResponse,
  type ExpressLimitOptions,
  type ExpressRequestLike,
} from './http/express.ts';
export {
  fastifyLimit,
  type FastifyLimitOptions,
  type FastifyReplyLike,
  type FastifyRequestLike,
} from './http/fastify.ts';
export {
  httpLimit,
  type Closable,
  type Decision,
  type Fields,
  type HttpLimitOptions,
  type Problem,
  type Refusal,
} from './http/limit.ts';
export { NewerFormatError, type Newer } from './domain/format.ts';
export { LimiterUnavailableError } from './redis/deadline.ts';
export type { OnUnavailable } from './limiter/fallback.ts';
export type {
  Admission,
  Admitted,
  Ask,
  Block,
  Cause,
  Follow,
  SlotId,
  Inspection,
  Limiter,
  Moved,
  OrderView,
  Oversight,
  QuietView,
  Refused,
  Reserved,
  ReservedView,
  RuleStanding,
  SlotView,
  Standing,
} from './limiter/limiter.ts';
export type { Overtaking } from './domain/limits.ts';
export { createMemoryLimiter, type MemoryLimiter, type MemoryLimiterOptions } from './limiter/memory/memory-limiter.ts';
export type { Over, Quota, QuotaAnswer, QuotaTerms, QuotaUse, Taken } from './quota/quota.ts';
export { createRedisQuota, type RedisQuotaOptions } from './quota/redis-quota.ts';
export { createRedisLimiter, type RedisLimiterOptions } from './limiter/redis/redis-limiter.ts';
export type { LimiterRedis } from './limiter/redis/keys.ts';
export { RedisAwayError, type RedisTrouble } from './redis/connection.ts';
export type { ScriptDefinition, ScriptRedis } from './redis/scripts.ts';
export type { Connection, RedisTarget, SentinelTarget } from './redis/target.ts';
export {
  checkInput,
  createProducer,
  type Canceled,
  type CancelTarget,
  type Enqueued,
  type EnqueuedMany,
  type EnqueuedOne,
  type EnqueueInput,
  type EnqueueManyOptions,
  type NotificationStatus,
  type Producer,
  type ProducerOptions,
  type Retracted,
  type RetractTarget,
} from './producer/producer.ts';
