import type { Platform } from '../domain/notification.ts';
import type { Over, Quota } from '../limiter/quota.ts';
import type { Ready } from './devices.ts';
import type { Progress } from './progress.ts';

/** The quotas of whole projects, for the providers that have one. */
export type Quotas = ReadonlyMap<Platform, Pick<Quota, 'take'>>;

/** What the quotas leave to be sent now. */
export interface Covered {
  readonly ready: readonly Ready[];
  /** Of the providers that are over their quota, the one that has room first; its rule with the platform before it. */
  readonly over?: Pick<Over, 'waitMs' | 'rule'>;
  /** With the instants at which there is room for what was sent away. */
  readonly progress: Progress;
}

/** Takes a token for each device. A device whose provider is over its quota stays open, and is tried when there is room. */
export async function cover(ready: readonly Ready[], progress: Progress, quotas: Quotas): Promise<Covered> {
  const platforms = [...new Set(ready.map(({ device }) => device.platform))];
  const lots = await Promise.all(
    platforms.map((platform) => {
      const ofPlatform = ready.filter(({ device }) => device.platform === platform);
      return take(platform, ofPlatform, quotas.get(platform), progress.quotaAt?.[platform]);
    }),
  );
  const overs = lots.flatMap(({ platform, over }) =>
    over ? [{ ...over, rule: `${platform}:${over.rule}`, platform }] : [],
  );
  const soonest = overs.toSorted((a, b) => a.waitMs - b.waitMs)[0];
  const quotaAt: Progress['quotaAt'] = {};
  for (const { platform, at } of overs) quotaAt[platform] = at;
  return {
    ready: lots.flatMap(({ covered }) => covered),
    ...(soonest && { over: soonest }),
    progress: { ...progress, quotaAt: soonest && quotaAt },
  };
}

interface Lot {
  readonly platform: Platform;
  readonly covered: readonly Ready[];
  readonly over?: Over;
}

/** One after the other, up to the first that has to wait: each that is sent away takes room that is set aside for it. */
async function take(
  platform: Platform,
  ready: readonly Ready[],
  quota: Pick<Quota, 'take'> | undefined,
  promisedAt: number | undefined,
): Promise<Lot> {
  if (quota === undefined) return { platform, covered: ready };
  for (const index of ready.keys()) {
    const answer = await quota.take(index === 0 ? promisedAt : undefined);
    if (answer.kind === 'over') return { platform, covered: ready.slice(0, index), over: answer };
  }
  return { platform, covered: ready };
}
