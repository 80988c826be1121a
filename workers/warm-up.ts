import { parseNotification, type Platform } from '../src/domain/notification.ts';
import type { Limiter } from '../src/limiter/limiter.ts';
import { pushId } from '../src/providers/push-id.ts';
import type { Provider } from '../src/providers/provider.ts';

const SAMPLE = {
  id: 'warm-up',
  recipientId: 'pushpacer-warm-up',
  devices: [{ platform: 'apns', token: 'ab'.repeat(32) }],
  alert: { title: 'Warm-up', body: 'Never sent' },
};
/** Enough for the engine to compile what runs for each job, and for the limiter to know Redis's clock. */
const ROUNDS = 50;

/**
 * Runs what each job runs, without a trace: the first alerts of a cold process would reach the provider 100 ms late, and
 * the next ones come too close behind them. Opens the providers' connections as well. Never throws for want of Redis.
 */
export async function warmUp(
  limiter: Pick<Limiter, 'peek'>,
  providers: ReadonlyMap<Platform, Provider>,
  now: () => number = Date.now,
): Promise<void> {
  await Promise.all([...providers.values()].map((provider) => provider.warm()));
  for (let round = 0; round < ROUNDS; round++) {
    const parsed = parseNotification({ ...SAMPLE, expiresAt: now() + 60_000 });
    if (!parsed.ok) throw new TypeError('the sample of the warm-up is no notification');
    const { notification } = parsed;
    for (const device of notification.devices) {
      const push = { notification, device, pushId: pushId(notification.id, round), silent: false };
      for (const provider of providers.values()) provider.prepare(push);
    }
    await limiter.peek({ recipientId: notification.recipientId, id: `warm-up/${round}` }).catch(() => undefined);
  }
}
