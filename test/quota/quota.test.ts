import { createMemoryQuota } from '../../src/quota/memory-quota.ts';
import { createRedisQuota } from '../../src/quota/redis-quota.ts';
import { quotaContract } from '../contract/quota.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { AHEAD_MS } from '../limiter/stored.ts';

quotaContract(
  'on Redis',
  () => Date.now() + AHEAD_MS,
  (rules, leaseMs, now) => {
    const options = { rules, leaseMs, now, name: 'fcm', prefix: testPrefix(), redis: connectRedis() };
    return { clients: [createRedisQuota(options), createRedisQuota(options), createRedisQuota(options)] };
  },
);

quotaContract(
  'in memory',
  () => Date.now(),
  (rules, leaseMs, now) => {
    const quota = createMemoryQuota({ rules, leaseMs, now, name: 'fcm' });
    return { clients: [quota, quota, quota] };
  },
);
