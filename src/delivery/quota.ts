import type { Platform } from '../domain/notification.ts';
import type { Over, Quota } from '../quota/quota.ts';
import type { DeliverParts } from './context.ts';
import type { Ready } from './devices.ts';
import type { Progress } from './progress.ts';

/** Until there is room in a quota. */
export interface Wait extends Pick<Over, 'waitMs' | 'rule'> {
  /** Its end on `performance.now()`. */
  readonly dueAt: number;
}

/** What the quotas leave to be sent now. */
export interface Covered {
  readonly ready: readonly Ready[];
  /** Of the providers that are over their quota, the one that has room first; its rule with the platform before it. */
  readonly over: Wait | undefined;
  /** The tokens of `ready` are to be used before this, on `performance.now()`. */
  readonly useBy: number;
  /** With the instants at which there is room for what was sent away. */
  readonly progress: Progress;
}

/** Takes a token for each device. A device whose provider is over its quota stays open, and is tried when there is room. */
export async function cover(
  ready: readonly Ready[],
  progress: Progress,
  quotas: DeliverParts['quotas'],
): Promise<Covered> {
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
    over: soonest,
    useBy: Math.min(...lots.map(({ useBy }) => useBy)),
    progress: { ...progress, quotaAt: soonest && quotaAt },
  };
}

interface Lot {
  readonly platform: Platform;
  readonly covered: readonly Ready[];
  readonly useBy: number;
  readonly over?: Over & Wait;
}

/** One after the other, up to the first that has to wait: each that is sent away takes room that is set aside for it. */
async function take(
  platform: Platform,
  ready: readonly Ready[],
  quota: Pick<Quota, 'take'> | undefined,
  promisedAt: number | undefined,
): Promise<Lot> {
  let useBy = Infinity;
  if (quota === undefined) return { platform, covered: ready, useBy };
  for (const index of ready.keys()) {
    const answer = await quota.take(index === 0 ? promisedAt : undefined);
    if (answer.kind === 'over') {
      const over = { ...answer, dueAt: performance.now() + answer.waitMs };
      return { platform, covered: ready.slice(0, index), useBy, over };
    }
    useBy = Math.min(useBy, answer.useBy);
  }
  return { platform, covered: ready, useBy };
}
