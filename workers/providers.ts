import type { Config } from '../src/config/config.ts';
import { PLATFORMS, type Platform } from '../src/domain/notification.ts';
import type { Quota } from '../src/quota/quota.ts';
import { createRedisQuota } from '../src/quota/redis-quota.ts';
import type { LimiterRedis } from '../src/limiter/redis/scripts.ts';
import type { Provider } from '../src/providers/provider.ts';
import { PROVIDERS, type OptionsOf } from '../src/providers/registry.ts';

/** The providers of the platforms that have credentials; the others are off. */
export function createProviders({ providers: configs }: Pick<Config, 'providers'>): Map<Platform, Provider> {
  const providers = new Map<Platform, Provider>();
  for (const platform of PLATFORMS) {
    const options = configs[platform];
    if (options !== undefined) providers.set(platform, createProvider(platform, options));
  }
  return providers;
}

function createProvider<P extends Platform>(platform: P, options: OptionsOf<P>): Provider {
  return PROVIDERS[platform].create(options);
}

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
