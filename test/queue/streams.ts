import type { Outcome } from '../../src/notification/outcome.ts';
import { newLayout, type QueueNames } from '../../src/queue/shards/layout.ts';
import { createOutcomes, type InvalidToken, type OutcomesOptions } from '../../src/queue/outcomes.ts';
import { testPrefix } from '../support/redis.ts';

export const ENQUEUED_AT = 1_784_000_000_000;

/** What became of a notification that was delivered; `fields` on top. */
export const outcome = (id: string, fields: Partial<Outcome> = {}): Outcome => ({
  ...{ id, recipientId: 'teacher-42', outcome: 'delivered', generation: 0, enqueuedAt: ENQUEUED_AT },
  ...{ sentAt: ENQUEUED_AT + 40, waitMs: 40, devices: { 'apns#0': 'delivered' } },
  ...fields,
});

/** A token that APNs has called gone. */
export const goneToken = (token: string): InvalidToken => ({
  ...{ recipientId: 'teacher-42', platform: 'apns', token },
  ...{ meaning: 'gone', reason: 'Unregistered', timestamp: 1_700_000_000_000 },
});

/** The writer of a stream of outcomes, and what it gave up. */
export function openOutcomes(
  redis: OutcomesOptions['redis'],
  { shards = 1, prefix = testPrefix(), ...options }: Partial<OutcomesOptions & QueueNames> = {},
) {
  const layout = newLayout({ prefix, shards });
  const lost: [id: string, error: unknown][] = [];
  const onLost: OutcomesOptions['onLost'] = ({ id }, error) => void lost.push([id, error]);
  const stream = { redis, layout: () => layout, max: 1_000, insistMs: 10_000, onLost, ...options };
  return { prefix, lost, outcomes: createOutcomes(stream) };
}
