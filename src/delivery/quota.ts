import type { Platform } from '../domain/notification.ts';
import type { Over, Quota } from '../quota/quota.ts';
import type { Context, QuotaWait, ReadyDevice } from './context.ts';
import type { DeliverParts } from './parts.ts';
import type { Progress } from './progress.ts';

/**
 * Takes a token of its provider's quota for each device that is ready. A device for which there is no token stays open and
 * is tried when the quota has room: `context.quotaWait`.
 */
export async function takeTokens(context: Context, { quotas }: Pick<DeliverParts, 'quotas'>): Promise<void> {
  const { ready, progress } = context;
  const platforms = [...new Set(ready.map(({ device }) => device.platform))];
  const answers = await Promise.all(
    platforms.map((platform) => {
      const devices = ready.filter(({ device }) => device.platform === platform);
      return takeFor(platform, devices, quotas.get(platform), progress.quotaAt?.[platform]);
    }),
  );
  context.ready = answers.flatMap(({ withToken }) => withToken);
  context.tokensUntil = Math.min(...answers.map(({ useBy }) => useBy));
  const waits = answers.flatMap(({ wait }) => wait ?? []);
  context.quotaWait = waits.toSorted((a, b) => a.waitMs - b.waitMs)[0];
  const quotaAt: Progress['quotaAt'] = {};
  for (const { platform, at } of waits) quotaAt[platform] = at;
  context.progress = { ...progress, quotaAt: waits.length > 0 ? quotaAt : undefined };
}

/** What the quota of one platform answered. */
interface TokensOfPlatform {
  readonly withToken: readonly ReadyDevice[];
  readonly useBy: number;
  readonly wait?: QuotaWait & { readonly platform: Platform; readonly at: Over['at'] };
}

/** One device after the other, up to the first that has to wait: a quota sets room aside for each ask without a token. */
async function takeFor(
  platform: Platform,
  devices: readonly ReadyDevice[],
  quota: Pick<Quota, 'take'> | undefined,
  promisedAt: number | undefined,
): Promise<TokensOfPlatform> {
  let useBy = Infinity;
  if (quota === undefined) return { withToken: devices, useBy };
  for (const index of devices.keys()) {
    const answer = await quota.take(index === 0 ? promisedAt : undefined);
    if (answer.kind === 'over') {
      const { waitMs, at } = answer;
      const wait = { platform, at, waitMs, rule: `${platform}:${answer.rule}`, dueAt: performance.now() + waitMs };
      return { withToken: devices.slice(0, index), useBy, wait };
    }
    useBy = Math.min(useBy, answer.useBy);
  }
  return { withToken: devices, useBy };
}
