/** pushpacer's npm surface: enqueue notifications, pace anything per recipient. */
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
export { LimiterUnavailableError } from './limiter/errors.ts';
export type { Admission, Admitted, Ask, Limiter, Refused, Reserved } from './limiter/limiter.ts';
export { createMemoryLimiter, type MemoryLimiterOptions } from './limiter/memory-limiter.ts';
export { createRedisLimiter, type RedisLimiterOptions } from './limiter/redis-limiter.ts';
export { RedisAwayError } from './queue/connection.ts';
export {
  createProducer,
  type Enqueued,
  type EnqueueInput,
  type Producer,
  type ProducerOptions,
} from './queue/producer.ts';
