import { ruleName, type Policy } from '../src/domain/limits.ts';
import { formatDuration } from '../src/domain/time.ts';
import { LOCK_MS } from './faults.ts';
import { BACKGROUND_POLICY, NEWS_POLICY, POLICY, URGENT_POLICY } from './workload.ts';

/** The policies by which arrivals are checked. */
export const POLICIES = {
  policy: POLICY,
  categories: { news: NEWS_POLICY, urgent: URGENT_POLICY },
  background: BACKGROUND_POLICY,
};

/** The workers' settings. All waits are short, so that they fit into a run of a minute. */
export const WORKER_ENVIRONMENT = {
  LIMIT_RULES: rulesText(POLICY),
  LIMIT_MIN_GAP: formatDuration(POLICY.minGapMs),
  LIMIT_BACKGROUND_RULES: rulesText(BACKGROUND_POLICY),
  // Three hundred sends a second take about 20 streams in all at the usual latency; the rest is room for slow answers.
  WORKER_CONCURRENCY: '15',
  LOCK_DURATION: formatDuration(LOCK_MS),
  BACKOFF_BASE: '250ms',
  BACKOFF_MAX: '5s',
  PROVIDER_PAUSE_BASE: '500ms',
  PROVIDER_PAUSE_MAX: '2s',
  LOG_LEVEL: 'info',
};

/** The content of their LIMITS_FILE. */
export const LIMITS = {
  categories: {
    news: limitsOf(NEWS_POLICY),
    urgent: { ...limitsOf(URGENT_POLICY), exempt: ['gap', 'rules', 'quietHours'] },
  },
};

function limitsOf(policy: Policy): { readonly rules: string; readonly minGap: string } {
  return { rules: rulesText(policy), minGap: formatDuration(policy.minGapMs) };
}

function rulesText({ rules }: Policy): string {
  return rules.map(ruleName).join(',');
}
