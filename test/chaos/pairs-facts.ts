import type { Done, End, Life, PairsFacts } from '../../chaos/pairs/facts.ts';
import { judgePairs } from '../../chaos/pairs/judge.ts';
import type { SeenEntry } from '../../demo/providers-child.ts';
import type { ToDevices } from '../../src/notification/notification.ts';
import { entryOf, TOKEN } from './facts.ts';

// The facts of a run with --pairs, written down by hand.

type Lived = Partial<ToDevices> & { readonly name: string };

/** They are enqueued in this order, a second apart. The second of an id is called `a@2`. */
export function livesOf(...all: readonly Lived[]): Life[] {
  return all.map(({ name, ...more }, order) => {
    const id = name.replace(/@\d+$/, '');
    const devices = [{ platform: 'apns' as const, token: TOKEN }];
    const input = { id, recipientId: 'r', devices, alert: { body: 'own' }, ...more };
    return { name, id, order, input, askedAt: order * 1_000, acknowledgedAt: order * 1_000 + 5 };
  });
}

export function endOf(life: string, outcome: string, more: Partial<End> = {}): End {
  return { life, outcome, generation: 0, at: 50_000, from: 'job', ...more };
}

export const seen = (life: string, at: number, more: Partial<SeenEntry> = {}): SeenEntry =>
  entryOf(life, at, { body: 'own', ...more });

export function judged(facts: Partial<PairsFacts> & Pick<PairsFacts, 'lives'>) {
  const none = { done: [], ends: [], dead: [], queued: [], entries: [], incidents: [], thaws: [], lines: [] };
  const rest = { looks: [], leftovers: [], readAt: 100_000, crashes: [], drainMs: 0, tookMs: 0 };
  return judgePairs({ ...none, ...rest, ...facts }, { seed: 1, seconds: 25 });
}

/** `4: a: an alert for 1; …` */
export function faultsOf(facts: Partial<PairsFacts> & Pick<PairsFacts, 'lives'>): string[] {
  return judged(facts).faults.map(({ rule, text }) => `${rule}: ${text}`);
}

export const digest = { onThrottle: 'digest' as const, digest: { key: 'k', body: '{{count}} new' } };
export const latest = { onThrottle: 'latest' as const, collapseId: 'c' };
export const merged = (life: string, by: string, more: Partial<End> = {}): End =>
  endOf(life, 'merged', { by, ...more });
export const act = (at: number) => ({ from: at, until: at + 10 });
export const cancelId = (id: string, at: number, canceled = 1): Done => ({
  kind: 'cancel-id',
  id,
  canceled,
  tooLate: 1 - canceled,
  ...act(at),
});
