import { isUrgent, withoutExempt, type Exemption } from '../../domain/limits.ts';
import { paceOf } from '../pace.ts';
import type { Opened } from './opened.ts';

/** A recipient's book as an ask of a category sees it that is exempt from some overall limits. */
export function exempted(opened: Opened, exempt: readonly Exemption[] = []): Opened {
  const { quiet, policy, scopes } = opened;
  const [overall, ...others] = scopes;
  const left = { ...opened, quiet: exempt.includes('quietHours') ? [] : quiet };
  if (!isUrgent({ exempt })) return left;
  const reduced = withoutExempt(policy, { exempt });
  const { limits, holdMs } = paceOf(reduced);
  return {
    ...left,
    scopes: [
      { ...overall, limits, allLimits: overall.limits, holdMs, gapMs: reduced.minGapMs, isUrgent: true },
      ...others,
    ],
  };
}
