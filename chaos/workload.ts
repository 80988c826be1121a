import { sandboxSubscription } from '../sandbox/webpush/subscription.ts';
import { tokenOf } from '../src/notification/device.ts';
import { ruleName, type Policy } from '../src/domain/limits.ts';
import type { Device, ToDevices } from '../src/notification/notification.ts';
import { formatDuration } from '../src/domain/time.ts';
import { createDice, type Dice, LOCK_MS } from './faults.ts';

/** One notification as it is enqueued. */
interface Item {
  readonly input: ToDevices;
  /** It expires so long after it was planned to be enqueued. */
  readonly expiresInMs?: number;
  /** It is canceled so long after it was enqueued. */
  readonly cancelAfterMs?: number;
}

/** What is enqueued at one instant. */
export interface Burst {
  readonly atMs: number;
  readonly items: readonly Item[];
}

export interface Workload {
  /** In order. A few notifications are enqueued a second time. */
  readonly bursts: readonly Burst[];
  /** Notifications that `createProducer` would refuse; a producer in another language might not. */
  readonly malformed: readonly { readonly id: string }[];
  /** Recipients for whom it is quiet during the whole run. */
  readonly quiet: readonly string[];
  /** Tokens that are gone or bad for the whole run. */
  readonly spoilt: readonly { readonly device: Device; readonly how: 'gone' | 'badToken' }[];
}

interface WorkloadOptions {
  readonly seed: number;
  readonly seconds: number;
  /** How many in all, the malformed ones too. */
  readonly notifications: number;
  /** Where the browsers' subscriptions lie: `https://127.0.0.1:41875`. */
  readonly pushService: string;
  /** Twelve hexadecimal digits in every token and every text, so that a leak can be found. */
  readonly marker: string;
}

/** The recipients' limits, those of the category `news`, and those of background pushes. */
export const POLICY = {
  rules: [
    { max: 5, perMs: 4_000 },
    { max: 12, perMs: 12_000 },
  ],
  minGapMs: 500,
};
const NEWS_POLICY = { rules: [{ max: 3, perMs: 5_000 }], minGapMs: 800 };
/** Of the category `urgent`, which the overall limits do not count. */
const URGENT_POLICY = { rules: [{ max: 4, perMs: 3_000 }], minGapMs: 400 };
export const BACKGROUND_POLICY = { rules: [{ max: 3, perMs: 6_000 }], minGapMs: 0 };

/** The text of a digest; no other alert has such a text. */
const DIGEST_BODY = '{{count}} new';

/** Enqueued over the first part of a run, so that the last faults still meet work. */
const ENQUEUED_OVER = 0.7;
const PER_RECIPIENT = 10;
const MALFORMED_SHARE = 0.002;
const AGAIN_MS = 1_500;

/** Every notification of a run and when it is enqueued: a pure function of the seed, but for the marker and the push service. */
export function planWorkload({ seed, seconds, notifications, marker, pushService }: WorkloadOptions): Workload {
  const dice = createDice(seed, 7);
  const malformedCount = Math.round(notifications * MALFORMED_SHARE);
  const count = notifications - malformedCount;
  const lastMs = seconds * 1_000 * ENQUEUED_OVER;
  const recipients = Array.from({ length: Math.max(1, Math.round(count / PER_RECIPIENT)) }, (_, index) => ({
    recipientId: `recipient-${index}`,
    devices: devicesOf(dice, index, { marker, pushService }),
    kind: KINDS[index % KINDS_EVERY],
  }));

  const bursts: Burst[] = [];
  for (let made = 0, turn = 0; made < count; turn++) {
    // Each recipient has one burst; the others go to random recipients.
    const recipient = recipients[turn] ?? dice.pick(recipients);
    const size = Math.min(count - made, dice.between(1, 8));
    const first = made;
    const isPlain = recipient.kind === undefined;
    const together = isPlain && size > 2 && dice.chance(0.25) ? waitTogether(dice, `burst-${turn}`, marker) : {};
    const items = Array.from({ length: size }, (_, index) =>
      itemOf(dice, `n${first + index}`, recipient, marker, together),
    );
    const atMs = dice.between(0, lastMs);
    bursts.push({ atMs, items });
    if (dice.chance(0.02)) bursts.push({ atMs: Math.min(lastMs, atMs + AGAIN_MS), items });
    made += size;
  }
  return {
    bursts: bursts.toSorted((a, b) => a.atMs - b.atMs),
    malformed: Array.from({ length: malformedCount }, (_, index) => malformed(dice, `m${index}`, marker)),
    quiet: recipients.filter(({ kind }) => kind === 'quiet').map(({ recipientId }) => recipientId),
    spoilt: recipients
      .flatMap(({ devices }) => devices)
      .filter(() => dice.chance(0.02))
      .map((device, index) => ({ device, how: index % 2 === 0 ? 'gone' : 'badToken' })),
  };
}

/** The devices of notifications in the last third: notifications are still sent to them after an early fault. */
export function lateDevices({ bursts }: Pick<Workload, 'bursts'>): Device[] {
  const devices = bursts
    .slice(Math.floor((bursts.length * 2) / 3))
    .flatMap(({ items }) => items.flatMap(({ input }) => input.devices));
  return [...new Map(devices.map((device) => [tokenOf(device), device])).values()];
}

/** The notification's id in what an app gets beside the alert. */
export function refOf(data: Readonly<Record<string, string>>): string {
  return data['ref']?.split('.')[1] ?? '';
}

interface Recipient {
  readonly recipientId: string;
  readonly devices: Device[];
  /** Everything for this one is urgent, or comes in quiet hours. */
  readonly kind: Kind | undefined;
}

type Kind = 'urgent' | 'quiet';
/** Every so many recipients, two are not plain. */
const KINDS_EVERY = 25;
const KINDS: Readonly<Record<number, Kind>> = { 12: 'quiet', 24: 'urgent' };

function devicesOf(
  dice: Dice,
  recipient: number,
  { marker, pushService }: Pick<WorkloadOptions, 'marker' | 'pushService'>,
): Device[] {
  const count = dice.chance(0.7) ? 1 : dice.chance(0.75) ? 2 : 3;
  return Array.from({ length: count }, (_, index) => {
    const number = (recipient * 4 + index).toString(16).padStart(8, '0');
    const platform = dice.pick(['apns', 'fcm', 'webpush'] as const);
    if (platform === 'webpush') return { platform, ...sandboxSubscription(pushService, `${number}-${marker}`) };
    const token = platform === 'apns' ? `${number}${marker.repeat(4)}${number}` : `${number}:${marker}_${marker}`;
    return { platform, token };
  });
}

/** Of a burst: only the newest goes, or one for all. */
function waitTogether(
  dice: Dice,
  key: string,
  marker: string,
): Pick<ToDevices, 'onThrottle' | 'collapseId' | 'digest'> {
  if (dice.chance(0.4)) return { onThrottle: 'latest', collapseId: key };
  const digest = { key, title: `Digest ${marker}`, body: DIGEST_BODY, maxSize: dice.pick([2, 100]) };
  return { onThrottle: 'digest', digest };
}

function itemOf(
  dice: Dice,
  id: string,
  { recipientId, devices, kind }: Recipient,
  marker: string,
  together: Partial<ToDevices>,
): Item {
  const phones = devices.filter(({ platform }) => platform !== 'webpush');
  const isBackground = phones.length > 0 && dice.chance(0.1);
  const input: ToDevices = {
    id,
    recipientId,
    devices: isBackground ? phones : devices,
    data: { ref: `${marker}.${id}` },
    ...(isBackground
      ? { pushType: 'background' }
      : { alert: { title: `Title ${marker}`, body: `Body of ${id} ${marker}` } }),
    ...(dice.chance(0.4) && { category: dice.pick(['news', 'chat', 'alarm']) }),
    ...(dice.chance(0.2) && { priority: 'high' as const }),
    ...(dice.chance(0.1) && { collapseId: `topic-${dice.between(1, 9)}-${id}` }),
    ...(dice.chance(0.04) && { onThrottle: isBackground ? 'drop' : dice.pick(['drop', 'silence'] as const) }),
    ...(!isBackground && together),
    ...(kind === 'urgent' && { category: 'urgent' }),
    ...(kind === 'quiet' && { onQuiet: dice.pick(['silence', 'drop'] as const) }),
  };
  return {
    input,
    ...(dice.chance(0.03) && { expiresInMs: dice.between(500, 15_000) }),
    ...(dice.chance(0.04) && { cancelAfterMs: dice.between(0, 3_000) }),
  };
}

function malformed(dice: Dice, id: string, marker: string): { readonly id: string } {
  const device = { platform: 'apns', token: marker.repeat(4) };
  const alert = { body: `Body ${marker}` };
  const good = { id, recipientId: `recipient-${id}`, devices: [device], alert };
  return dice.pick([
    { ...good, devices: [{ ...device, token: `${marker}-not-hexadecimal` }] },
    { ...good, devices: [] },
    { ...good, alert: { body: 7, note: marker } },
    { ...good, [`unknown-${id}`]: marker },
    { ...good, data: { 'google.note': marker } },
  ]);
}

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
