import { ruleName, type Policy } from '../../src/domain/limits.ts';
import type { Device, ToDevices } from '../../src/notification/notification.ts';
import { formatDuration } from '../../src/domain/time.ts';
import { createDice, LOCK_MS, type Dice } from '../faults.ts';

/** A notification of the plan. Its instants are counted from when it is enqueued. */
export interface Item {
  readonly atMs: number;
  readonly input: ToDevices & { readonly id: string };
  readonly sendAfterMs?: number;
  readonly expiresInMs?: number;
}

interface WorkloadOptions {
  readonly seed: number;
  readonly seconds: number;
  /** In every token and every text. Twelve hexadecimal digits. */
  readonly marker: string;
}

/** Short, so that lines of tens of notifications come and go within seconds. */
export const POLICY: Policy = {
  rules: [
    { max: 20, perMs: 5_000 },
    // Never reached. With it the limiter remembers each send for a minute, so a cancel finds it (docs/waiting.md, "Who wins").
    { max: 1_000, perMs: 60_000 },
  ],
  minGapMs: 200,
};
const NEWS_POLICY: Policy = { rules: [{ max: 8, perMs: 4_000 }], minGapMs: 300 };
/** Of the category `urgent`, which the overall limits do not count. */
const URGENT_POLICY: Policy = { rules: [{ max: 6, perMs: 3_000 }], minGapMs: 100 };
export const BACKGROUND_POLICY: Policy = {
  rules: [
    { max: 3, perMs: 2_000 },
    { max: 1_000, perMs: 60_000 },
  ],
  minGapMs: 0,
};
/** What the action `limit` stores: stricter than POLICY in each part. */
export const STRICT_POLICY: Policy = { rules: [{ max: 10, perMs: 5_000 }, ...POLICY.rules], minGapMs: 400 };

export const POLICIES = {
  policy: POLICY,
  categories: { news: NEWS_POLICY, urgent: URGENT_POLICY },
  background: BACKGROUND_POLICY,
};
const URGENT_EXEMPT = ['gap', 'rules', 'quietHours'] as const;
/** As the limiter of an operator's action takes them. */
export const CATEGORIES = { news: NEWS_POLICY, urgent: { ...URGENT_POLICY, exempt: URGENT_EXEMPT } };

/** The content of the workers' LIMITS_FILE. */
export const LIMITS = {
  categories: {
    news: limitsOf(NEWS_POLICY),
    urgent: { ...limitsOf(URGENT_POLICY), exempt: URGENT_EXEMPT },
  },
};

export const WORKER_ENVIRONMENT = {
  LIMIT_RULES: rulesText(POLICY),
  LIMIT_MIN_GAP: formatDuration(POLICY.minGapMs),
  LIMIT_BACKGROUND_RULES: rulesText(BACKGROUND_POLICY),
  WORKER_CONCURRENCY: '15',
  // Few, so that a burst of errors makes some dead letters, `attempts-exhausted`.
  ATTEMPTS: '3',
  LOCK_DURATION: formatDuration(LOCK_MS),
  BACKOFF_BASE: '200ms',
  BACKOFF_MAX: '2s',
  PROVIDER_PAUSE_BASE: '300ms',
  PROVIDER_PAUSE_MAX: '1s',
  OUTCOMES_MAX: '100000',
  LOG_LEVEL: 'info',
};

function limitsOf(policy: Policy): { readonly rules: string; readonly minGap: string } {
  return { rules: rulesText(policy), minGap: formatDuration(policy.minGapMs) };
}

function rulesText({ rules }: Policy): string {
  return rules.map(ruleName).join(',');
}

const NOTIFICATIONS = 360;
/** The rest of the time is for acts on what waits. */
const ENQUEUED_OVER = 0.7;
/** Blocked for long, with a few of each kind that wait meanwhile. */
export const ASIDE = 'aside';
const ASIDE_COUNT = 12;
/** The text of a digest; no other alert has such a text. */
const DIGEST_BODY = '{{count}} new';
/** `3 new`, which it becomes. */
export const SENT_BODY = /^(\d+) new$/;

/** Everything that is enqueued, in order: a pure function of the seed, but for the marker. */
export function planItems({ seed, seconds, marker }: WorkloadOptions): Item[] {
  const dice = createDice(seed, 31);
  const lastMs = seconds * 1_000 * ENQUEUED_OVER;
  const recipients = recipientsOf(dice.between(4, 6), marker);
  const items: Item[] = [];
  const add = (recipient: Recipient, atMs: number): void => {
    items.push({ atMs, ...itemOf(dice, `n${items.length}`, recipient, marker) });
  };
  while (items.length < NOTIFICATIONS - ASIDE_COUNT) {
    const recipient = dice.pick(recipients);
    const atMs = dice.between(0, lastMs);
    const size = Math.min(dice.chance(0.5) ? 1 : dice.between(4, 14), NOTIFICATIONS - ASIDE_COUNT - items.length);
    // A burst takes up to half a second, so that acts fall between its parts.
    for (let made = 0; made < size; made += 1) add(recipient, Math.min(lastMs, atMs + dice.between(0, 40) * made));
  }
  const aside = { recipientId: ASIDE, devices: [deviceOf('apns', 99, marker)] };
  while (items.length < NOTIFICATIONS) add(aside, dice.between(0, lastMs));
  return items.toSorted((a, b) => a.atMs - b.atMs);
}

/** The devices of all recipients but the one that is blocked for long. */
export function devicesOf(items: readonly Item[]): Device[] {
  const devices = items.filter(({ input }) => input.recipientId !== ASIDE).flatMap(({ input }) => input.devices);
  return [...new Map(devices.map((device) => [JSON.stringify(device), device])).values()];
}

/** The recipients but that one. */
export function recipientIdsOf(items: readonly Item[]): string[] {
  return [...new Set(items.map(({ input }) => input.recipientId))].filter((id) => id !== ASIDE).toSorted();
}

/**
 * The same notification under a name of its own, which the app gets as `ref`. An id that is enqueued again after its end is another
 * notification: `n17`, then `n17@2`.
 */
export function named(input: Item['input'], name: string, marker: string): Item['input'] {
  return { ...input, data: { ref: `${marker}.${name}` } };
}

interface Recipient {
  readonly recipientId: string;
  readonly devices: readonly Device[];
}

const DEVICES = [['apns'], ['fcm'], ['apns', 'fcm'], ['fcm', 'apns'], ['apns'], ['fcm', 'apns']] as const;

function recipientsOf(count: number, marker: string): Recipient[] {
  return DEVICES.slice(0, count).map((platforms, index) => ({
    recipientId: `person-${index}`,
    devices: platforms.map((platform, device) => deviceOf(platform, index * 4 + device, marker)),
  }));
}

function deviceOf(platform: 'apns' | 'fcm', index: number, marker: string): Device {
  const number = index.toString(16).padStart(8, '0');
  const token = platform === 'apns' ? `${number}${marker.repeat(4)}${number}` : `${number}:${marker}_${marker}`;
  return { platform, token };
}

type Kind = 'plain' | 'latest' | 'digest' | 'drop' | 'silence' | 'background';

function kindOf(dice: Dice): Kind {
  const share = dice.between(0, 99);
  if (share < 30) return 'digest';
  if (share < 54) return 'latest';
  if (share < 59) return 'background';
  if (share < 63) return 'drop';
  return share < 67 ? 'silence' : 'plain';
}

function itemOf(dice: Dice, id: string, recipient: Recipient, marker: string): Omit<Item, 'atMs'> {
  const { recipientId } = recipient;
  const kind = kindOf(dice);
  const isTogether = kind === 'latest' || kind === 'digest';
  const one = dice.pick(recipient.devices);
  const share = dice.between(0, 99);
  // A category has a line of its own, so what waits together is mostly in none.
  const category = share < (isTogether ? 3 : 10) ? 'urgent' : share < (isTogether ? 10 : 25) ? 'news' : undefined;
  const sendAfterMs = dice.chance(0.08) ? dice.between(500, 5_000) : undefined;
  const expiresInMs = dice.chance(0.1) ? (sendAfterMs ?? 0) + dice.between(600, 5_000) : undefined;
  const input: Item['input'] = {
    id,
    recipientId,
    devices: dice.chance(0.4) ? [...recipient.devices] : [one],
    data: { ref: `${marker}.${id}` },
    ...(kind === 'background'
      ? { pushType: 'background' }
      : { alert: { title: `Title ${marker}`, body: `Body of ${id}` } }),
    ...(category !== undefined && { category }),
    ...(dice.chance(0.1) && { priority: 'high' as const }),
    ...(dice.chance(0.45) && { cancellationKey: `key-${dice.between(1, 3)}` }),
    ...togetherOf(dice, kind, recipientId, marker),
  };
  return {
    input,
    ...(sendAfterMs !== undefined && { sendAfterMs }),
    ...(expiresInMs !== undefined && { expiresInMs }),
  };
}

function togetherOf(dice: Dice, kind: Kind, recipientId: string, marker: string): Partial<ToDevices> {
  if (kind === 'latest') return { onThrottle: kind, collapseId: `${recipientId}-score-${dice.between(1, 2)}` };
  if (kind === 'digest') {
    const key = `thread-${dice.between(1, 3)}`;
    // Of one key all have the same bound.
    const digest = { key, title: `Digest ${marker}`, body: DIGEST_BODY, ...(key === 'thread-3' && { maxSize: 3 }) };
    return { onThrottle: kind, digest };
  }
  return kind === 'drop' || kind === 'silence' ? { onThrottle: kind } : {};
}
