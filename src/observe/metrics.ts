import { readFileSync } from 'node:fs';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { namesOf, type Account, type Service, SEVERAL_APPS, type Target } from '../notification/device.ts';
import { PLATFORMS } from '../notification/notification.ts';
import {
  DEAD_LETTER_REASONS,
  OUTCOMES,
  resultName,
  TROUBLES,
  type DeadLetterReason,
  type Result,
  type Trouble,
} from '../notification/outcome.ts';
import { LATENESS_BOUNDS_MS, SEND_AFTER } from '../domain/time.ts';
import { createSlotWatch, WITHOUT_SLOT_CODES, type SlotWatch } from './without-slot.ts';

/**
 * What one worker counts; shared-metrics.ts has what all workers read from Redis. Labels have few possible values: never a
 * recipient, never a token. The series of an account have the label `platform`; for an app of APPS_FILE also the label `app`.
 * docs/metrics.md lists all series, and test/house compares that list with a scrape.
 */
export interface Metrics {
  readonly registry: Registry;
  /** Sets which accounts have credentials from now on. Their series begin at 0. */
  use(accounts: Iterable<Account>): void;
  /** A pass ended. */
  passEnded(result: Result, end: PassEnd): void;
  /** What this worker did since its start, for the registry of workers. */
  tally(): Tally;
  /** A notification became a dead letter without a pass that decided it: its job stalled too often. */
  diedUnseen(dead: Target & { readonly reason?: DeadLetterReason }): void;
  /** A provider answered. */
  reply(account: Account, meaning: string, tookMs: number): void;
  /** A server refused a push because it takes no more for now. */
  limited(service: Service): void;
  /** A deferred job reached a worker this long after it was due. */
  woken(lateMs: number): void;
  /** One ask to the limiter took this long, whether it was answered or not. */
  asked(tookMs: number): void;
  /** Whether asks get slots. */
  readonly slots: SlotWatch;
  /** A job without a priority was taken. BullMQ takes such jobs before all jobs that are due. */
  unprioritised(): void;
  /** A job was put back for another worker because a newer version wrote it. */
  newerJob(): void;
  /** A job was put back for a worker with credentials that this worker lacks. */
  withoutCredentials(account: Account): void;
  /** This worker learned that a circuit breaker opened. */
  breakerOpened(service: Service, trouble: Trouble): void;
  /** A trial of this worker ended: `success`, `failure` or `unused`. */
  breakerTrial(service: Service, result: string): void;
}

/** Counts since the start of a worker. */
export interface Tally {
  /** Passes that ended. */
  readonly passes: number;
  /** When the last pass ended: epoch milliseconds on this machine's clock; absent before the first pass. */
  readonly lastPassAt?: number;
  readonly delivered: number;
  readonly dead: number;
  /** Notifications that were put back until a slot. */
  readonly requeued: number;
  /** Wake-ups by lateness: one number for each bound in LATENESS_BOUNDS_MS, and one for later wake-ups. */
  readonly late: readonly number[];
}

/** What is counted of a pass in addition to its result. */
export interface PassEnd {
  readonly target: Target;
  /** From enqueuing, or a later `sendAfter`, to the first acceptance, or to the end without one. Absent before the end. */
  readonly waitedMs?: number;
  /** `waitedMs` of a delivered notification that a device accepted in this generation. */
  readonly acceptedMs?: number;
  /** For a notification that had been put back until a slot: how long after that slot its send began. */
  readonly slotLateMs?: number;
}

export interface MetricsOptions {
  /** The limiter's tolerance: a wake-up that is later than this is counted. */
  readonly lateAfterMs: number;
  /** The rules that are known to make notifications wait: `gap`, `10/1m`, `fcm:600000/1m`. */
  readonly rules?: readonly string[];
  /** How many jobs have a place now, and how many places there are. This function and the next ones are called at each scrape. */
  readonly jobs?: () => { readonly inHand: number; readonly places: number };
  /** For each circuit breaker, how much longer it stays open; 0 if it is half open, undefined if it is closed. */
  readonly breakersOpenMs: () => Iterable<readonly [Service, number | undefined]>;
  /** For each provider, for how long it could not be reached; 0 if it can be reached. */
  readonly unreachableMs: () => Iterable<readonly [Service, number]>;
}

const LONG_SECONDS = [0.1, 0.5, 1, 3, 10, 30, 60, 300, 900, 3600, 14_400, 86_400];
const WHOLE_SECONDS = [0.025, 0.05, ...LONG_SECONDS];
const FAST_SECONDS = LATENESS_BOUNDS_MS.map((ms) => ms / 1_000);
const SLOT_SECONDS = [...FAST_SECONDS, 30, 60, 300];
/** An ask takes a millisecond if Redis is near, and at most twice LIMITER_TIMEOUT_MS. */
const ASK_SECONDS = [0.0005, ...FAST_SECONDS];
const NO_JOBS = { inHand: 0, places: 0 };
const JOBS_IN_HAND =
  'Jobs that this replica has in hand now. Those that sleep until their slot take no place, and are not counted.';
const PASS_RESULTS = [
  ...([
    'delivered',
    'retracted',
    'requeued',
    'retried',
    'deferred',
    'expired',
    'dropped',
    'canceled',
    'superseded',
    'merged',
  ] as const),
  ...(['dead-lettered', 'yielded'] as const),
] satisfies ReturnType<typeof resultName>[];
const TRIAL_RESULTS = ['success', 'failure', 'unused'];

export function createMetrics({ lateAfterMs, rules = [], jobs = () => NO_JOBS, ...sources }: MetricsOptions): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  const counter = <Label extends string = never>(name: string, help: string, labelNames: Label[] = []) =>
    new Counter({ name, help, labelNames, registers });
  const gauge = <Label extends string = never>(name: string, help: string, labelNames: Label[] = []) =>
    new Gauge({ name, help, labelNames, registers });
  const histogram = <Label extends string = never>(
    name: string,
    help: string,
    buckets: number[],
    labelNames: Label[] = [],
  ) => new Histogram({ name, help, buckets, labelNames, registers });
  /** `read` is called at each scrape. */
  const gaugeOfServices = (name: string, help: string, read: MetricsOptions['breakersOpenMs']): void => {
    new Gauge({
      ...{ name, help, labelNames: ['platform', 'app', 'server'], registers },
      collect() {
        this.reset(); // an app may have been removed
        for (const [service, ms = 0] of read()) this.set(namesOf(service), ms / 1000);
      },
    });
  };

  gauge('pushpacer_build_info', 'Always 1; the labels say which version of pushpacer and of Node this replica runs.', [
    'version',
    'node',
  ]).set({ version: packageVersion(), node: process.versions.node }, 1);
  const outcomes = counter(
    'pushpacer_outcomes_total',
    'Notifications that ended, by outcome, reason (of dead letters), silenced, the platforms of their devices, and app.',
    ['outcome', 'reason', 'silenced', 'platform', 'app'],
  );
  const passes = counter('pushpacer_passes_total', 'Passes that ended, by result.', ['result']);
  for (const result of PASS_RESULTS) passes.inc({ result }, 0);
  new Gauge({
    ...{ name: 'pushpacer_jobs_in_hand', help: JOBS_IN_HAND, registers },
    collect() {
      this.set(jobs().inHand);
    },
  });
  new Gauge({
    ...{ name: 'pushpacer_job_places', help: 'How many jobs this replica may have in hand at once.', registers },
    collect() {
      this.set(jobs().places);
    },
  });
  const requeues = counter(
    'pushpacer_requeues_total',
    'Blocked notifications put back until their slot, by the rule that decided the wait.',
    ['rule'],
  );
  for (const rule of rules) requeues.inc({ rule }, 0);
  const retries = counter(
    'pushpacer_retries_total',
    'Passes that will be repeated, by kind: retried (counts as an attempt) or held (deferred, does not count).',
    ['kind'],
  );
  for (const kind of ['retried', 'held']) retries.inc({ kind }, 0);
  const waits = histogram(
    'pushpacer_wait_seconds',
    'Waits that the limiter gave to blocked notifications.',
    LONG_SECONDS,
  );
  const accepted = histogram(
    'pushpacer_enqueue_to_accepted_seconds',
    'Time from enqueuing a notification, or from its sendAfter, until a provider accepted it, with all waits; by its platforms.',
    WHOLE_SECONDS,
    ['platform'],
  );
  for (const platform of combinations(PLATFORMS)) accepted.zero({ platform });
  const slotLateness = histogram(
    'pushpacer_slot_lateness_seconds',
    'How long after its slot the send of a requeued notification began.',
    SLOT_SECONDS,
  );
  const asks = histogram('pushpacer_limiter_seconds', 'Time of one ask to the limiter.', ASK_SECONDS);
  const slots = createSlotWatch();
  new Gauge({
    name: 'pushpacer_without_slot_seconds',
    help: 'For how long this replica asked for slots and got none, by the cause; 0 if it gets them, or asks for none.',
    labelNames: ['code'],
    registers,
    collect() {
      const { code: present, since = 0, lastAt = 0 } = slots.current() ?? {};
      for (const code of WITHOUT_SLOT_CODES) this.set({ code }, code === present ? (lastAt - since) / 1_000 : 0);
    },
  });
  const lateness = histogram(
    'pushpacer_wake_lateness_seconds',
    'How long after its due time a requeued notification reached a worker.',
    FAST_SECONDS,
  );
  const lateWakes = counter(
    'pushpacer_late_wakes_total',
    'Requeued notifications that reached a worker later than the tolerance of LIMIT_MIN_GAP and LIMIT_RULES.',
  );
  const mostLate = gauge(
    'pushpacer_wake_lateness_most_seconds',
    'The most of pushpacer_wake_lateness_seconds since the worker started.',
  );
  let mostLateMs = 0;
  const provider = histogram(
    'pushpacer_provider_seconds',
    "Time to a provider's answer, by platform, app (none: that of the environment) and meaning.",
    FAST_SECONDS,
    ['platform', 'app', 'meaning'],
  );
  const limited = counter(
    'pushpacer_provider_limits_total',
    'Pushes that a push service refused because it takes no more for now (429): they are sent later, at no attempt.',
    ['platform', 'app', 'server'],
  );
  const unprioritised = counter(
    'pushpacer_unprioritised_jobs_total',
    'Jobs added without a priority: BullMQ takes them before all jobs that are due.',
  );
  const putBack = counter(
    'pushpacer_jobs_without_credentials_total',
    'Times that a job was put back because this worker has no credentials for a device of it, by platform and app.',
    ['platform', 'app'],
  );
  for (const platform of PLATFORMS) for (const app of ['', NOT_CONFIGURED]) putBack.inc({ platform, app }, 0);
  const newerJobs = counter(
    'pushpacer_newer_jobs_total',
    'Times that a job was put back for another worker because a newer version of pushpacer wrote what it needs.',
  );
  gaugeOfServices(
    'pushpacer_breaker_open_seconds',
    "How much longer a provider's circuit breaker stays open; 0 when it is closed or half open.",
    sources.breakersOpenMs,
  );
  new Gauge({
    name: 'pushpacer_breaker_state',
    help: 'Always 1 for the state that a circuit breaker is in, and 0 for its other states.',
    labelNames: ['platform', 'app', 'server', 'state'],
    registers,
    collect() {
      this.reset(); // an app may have been removed
      for (const [service, openMs] of sources.breakersOpenMs()) {
        const present = openMs === undefined ? 'closed' : openMs > 0 ? 'open' : 'half-open';
        for (const state of ['closed', 'open', 'half-open'])
          this.set({ ...namesOf(service), state }, state === present ? 1 : 0);
      }
    },
  });
  gaugeOfServices(
    'pushpacer_provider_unreachable_seconds',
    'For how long this replica could not connect to a provider, or reach its sign-in; 0 if it can.',
    sources.unreachableMs,
  );
  const breakersOpened = new Counter({
    name: 'pushpacer_breaker_opened_total',
    help: 'Openings of circuit breakers that this replica learned of, by trouble. All replicas share all but outages.',
    labelNames: ['platform', 'app', 'server', 'trouble'],
    aggregator: 'omit', // no sum, and no maximum either: total-metrics.ts
    registers,
  });
  const breakerTrials = counter(
    'pushpacer_breaker_trials_total',
    'Trials of a half open circuit breaker by this replica, by result: success (it closed), failure, or unused.',
    ['platform', 'app', 'server', 'result'],
  );

  const counts = {
    passes: 0,
    delivered: 0,
    dead: 0,
    requeued: 0,
    late: Array<number>(LATENESS_BOUNDS_MS.length + 1).fill(0),
  };
  let lastPassAt: number | undefined;
  let apps: ReadonlySet<string> = new Set();
  /** A producer may name any app, so only apps with credentials become a label. */
  const labelsOf = ({ platform, app }: Target): Target => ({
    ...(platform !== undefined && { platform }),
    ...(app !== undefined && { app: apps.has(app) || app === SEVERAL_APPS ? app : NOT_CONFIGURED }),
  });

  return {
    registry,
    use(accounts) {
      const platformsOf = Map.groupBy([...accounts].map(namesOf), ({ app }) => app);
      const ofEnvironment = platformsOf.get(undefined) ?? [];
      platformsOf.delete(undefined);
      apps = new Set([...platformsOf.keys()].filter((app) => app !== undefined));
      const known = [...platformsOf].slice(0, MOST_APPS);
      const several = known.length === 0 ? [] : [[SEVERAL_APPS, [...accounts].map(namesOf)] as const];
      for (const labels of firstSeries([...known, ...several])) outcomes.inc(labels, 0);
      for (const names of [...ofEnvironment, ...known.flatMap(([, ofApp]) => ofApp)]) {
        limited.inc(names, 0); // the series of a server begins with its first refusal
        for (const trouble of TROUBLES) breakersOpened.inc({ ...names, trouble }, 0);
        for (const result of TRIAL_RESULTS) breakerTrials.inc({ ...names, result }, 0);
      }
    },
    tally: () => ({ ...counts, late: [...counts.late], ...(lastPassAt !== undefined && { lastPassAt }) }),
    diedUnseen({ reason = 'stalled', ...target }) {
      counts.dead += 1;
      outcomes.inc({ outcome: 'dead-lettered', reason, ...labelsOf(target) });
    },
    passEnded(result, { target, acceptedMs, slotLateMs }) {
      counts.passes += 1;
      passes.inc({ result: resultName(result) });
      if (slotLateMs !== undefined) slotLateness.observe(slotLateMs / 1000);
      lastPassAt = Date.now();
      if (result.kind === 'delivered') counts.delivered += 1;
      else if (result.kind === 'dead-letter') counts.dead += 1;
      else if (result.kind === 'requeued') counts.requeued += 1;
      if (result.kind === 'requeued') {
        requeues.inc({ rule: result.rule });
        if (result.rule !== SEND_AFTER) waits.observe(result.waitMs / 1000);
      } else if (result.kind === 'retried' || result.kind === 'deferred') {
        retries.inc({ kind: result.kind === 'deferred' ? 'held' : 'retried' });
      } else if (result.kind === 'dead-letter') {
        outcomes.inc({ outcome: 'dead-lettered', reason: result.reason, ...labelsOf(target) });
      } else if (result.kind !== 'yielded') {
        const silenced = result.kind === 'delivered' && result.silenced && { silenced: 'true' };
        outcomes.inc({ outcome: result.kind, reason: '', ...silenced, ...labelsOf(target) });
        if (acceptedMs !== undefined) accepted.observe({ platform: target.platform ?? '' }, acceptedMs / 1000);
      }
    },
    reply: (account, meaning, tookMs) => provider.observe({ ...namesOf(account), meaning }, tookMs / 1000),
    limited: (service) => limited.inc(namesOf(service)),
    woken(lateMs) {
      lateness.observe(Math.max(0, lateMs) / 1000);
      const place = LATENESS_BOUNDS_MS.findIndex((bound) => lateMs <= bound);
      const at = place === -1 ? LATENESS_BOUNDS_MS.length : place;
      counts.late[at] = (counts.late[at] ?? 0) + 1;
      mostLateMs = Math.max(mostLateMs, lateMs);
      mostLate.set(mostLateMs / 1000);
      if (lateMs > lateAfterMs) lateWakes.inc();
    },
    asked: (tookMs) => asks.observe(tookMs / 1000),
    slots,
    unprioritised: () => unprioritised.inc(),
    newerJob: () => newerJobs.inc(),
    withoutCredentials(account) {
      const { platform, app } = namesOf(account);
      putBack.inc({ platform, app: app === undefined ? '' : NOT_CONFIGURED });
    },
    breakerOpened: (service, trouble) => breakersOpened.inc({ ...namesOf(service), trouble }),
    breakerTrial: (service, result) => breakerTrials.inc({ ...namesOf(service), result }),
  };
}

/** Gauges that prom-client names as counters. `promtool check metrics` refuses them; each has a twin without `_total`. */
const MISNAMED = ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total'];

/** The value of the label `app` for an app that has no credentials here. No app's name has a space. */
const NOT_CONFIGURED = 'not configured';
/** The series of this many apps begin at 0; the series of further apps begin with their first notification. */
const MOST_APPS = 20;
type SeriesLabels = Partial<Record<'outcome' | 'reason' | 'silenced' | 'platform' | 'app', string>>;

/** Series that begin at 0: Prometheus sees no rise in a series that begins at 1. */
function firstSeries(
  apps: readonly (readonly [app: string | undefined, accounts: readonly { readonly platform: string }[]])[],
): SeriesLabels[] {
  const unconfigured = { outcome: 'dead-lettered', reason: 'provider-not-configured', app: NOT_CONFIGURED };
  return [
    ...[{ outcome: 'dead-lettered', reason: 'invalid' }], // no device could be read
    ...PLATFORMS.map((platform) => ({ ...unconfigured, platform })),
    ...combinations(PLATFORMS).flatMap((platform) => seriesOf({ platform })), // also for platforms that are off
    ...apps.flatMap(([app = '', accounts]) =>
      combinations([...new Set(accounts.map(({ platform }) => platform))]).flatMap((platform) =>
        seriesOf({ platform, app }),
      ),
    ),
  ];
}

function seriesOf(target: Target): SeriesLabels[] {
  return [
    ...OUTCOMES.filter((outcome) => outcome !== 'dead-lettered').map((outcome) => ({ outcome, reason: '', ...target })),
    { outcome: 'delivered', reason: '', silenced: 'true', ...target },
    ...DEAD_LETTER_REASONS.map((reason) => ({ outcome: 'dead-lettered', reason, ...target })),
  ];
}

/** `['apns', 'fcm']` → `['apns', 'fcm', 'apns,fcm']`: every value that the label `platform` may have. */
function combinations(platforms: readonly string[]): string[] {
  const sorted = platforms.toSorted();
  const subsets = sorted.reduce<string[][]>((all, next) => [...all, ...all.map((some) => [...some, next])], [[]]);
  return subsets.filter(({ length }) => length > 0).map((some) => some.join());
}

/** This program's version: from package.json, which is one folder higher if this file runs from `dist`. */
export function packageVersion(): string {
  const file = import.meta.url.endsWith('.ts') ? '../../package.json' : '../../../package.json';
  return (JSON.parse(readFileSync(new URL(file, import.meta.url), 'utf8')) as { readonly version: string }).version;
}
