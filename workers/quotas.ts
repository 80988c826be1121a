import type { Config } from '../src/config/config.ts';
import { PLATFORMS, type Platform } from '../src/domain/notification.ts';
import type { Quota } from '../src/quota/quota.ts';
import { createRedisQuota } from '../src/quota/redis-quota.ts';
import type { LimiterRedis } from '../src/limiter/redis/scripts.ts';

/** The quotas that all replicas share, for the platforms that have one. */
export function createQuotas(
  { quotas, queue }: Pick<Config, 'quotas' | 'queue'>,
  redis: LimiterRedis,
  timeoutMs: number,
): Map<Platform, Quota> {
  const created = new Map<Platform, Quota>();
  for (const platform of PLATFORMS) {
    const rules = quotas[platform];
    if (rules === undefined) continue;
    created.set(platform, createRedisQuota({ redis, name: platform, rules, prefix: queue.prefix, timeoutMs }));
  }
  return created;
}
