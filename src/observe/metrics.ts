import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { namesOf, type Account, type Service } from '../domain/account.ts';
import type { Result, Trouble } from '../domain/outcome.ts';
import { SEND_AFTER } from '../domain/send-after.ts';

/**
 * What one replica counts. Labels have few possible values: never a recipient, never a token. What belongs to an account has the
 * label `platform`, and `app` too if it is an app of APPS_FILE; series of the environment's app have no such label.
 */
export interface Metrics {
  readonly registry: Registry;
  /** A pass ended. */
  passEnded(result: Result): void;
  /** A provider answered. */
  reply(account: Account, meaning: string, tookMs: number): void;
  /** A deferred job reached a worker this long after it was due. */
  woken(lateMs: number): void;
  /** A job without a priority was taken. BullMQ takes such jobs before all jobs that are due. */
  unprioritised(): void;
  /** This replica learned that a circuit breaker opened. */
  breakerOpened(service: Service, trouble: Trouble): void;
  /** A trial of this replica ended: `success`, `failure` or `unused`. */
  breakerTrial(service: Service, result: string): void;
}

/** Values that are read at each scrape. */
export interface MetricsSources {
  /** Jobs by state: `waiting`, `delayed`, `active`, … */
  readonly queueDepth: () => Promise<Readonly<Record<string, number>>>;
  /** How much longer each circuit breaker stays open; 0 if it is closed or half open. */
  readonly breakersOpenMs: () => Iterable<readonly [Service, number]>;
}

export interface MetricsOptions extends MetricsSources {
  /** The limiter's late tolerance: a wake-up that is later than this is counted. */
  readonly lateAfterMs: number;
}

const SECONDS = { wait: [0.1, 0.5, 1, 3, 10, 30, 60, 300, 900, 3600, 14_400, 86_400] };
const FAST_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];

export function createMetrics({ lateAfterMs, ...sources }: MetricsOptions): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });

  const outcomes = new Counter({
    name: 'pushpacer_outcomes_total',
    help: 'Notifications that ended, by outcome and, for dead letters, reason.',
    labelNames: ['outcome', 'reason'],
    registers,
  });
  const requeues = new Counter({
    name: 'pushpacer_requeues_total',
    help: 'Blocked notifications put back until their slot, by the rule that decided the wait.',
    labelNames: ['rule'],
    registers,
  });
  const retries = new Counter({
    name: 'pushpacer_retries_total',
    help: 'Passes that will be repeated, by kind: retried (counts as an attempt) or held (deferred, does not count).',
    labelNames: ['kind'],
    registers,
  });
  const waits = new Histogram({
    name: 'pushpacer_wait_seconds',
    help: 'Waits that the limiter gave to blocked notifications.',
    buckets: SECONDS.wait,
    registers,
  });
  const lateness = new Histogram({
    name: 'pushpacer_wake_lateness_seconds',
    help: 'How long after its due time a requeued notification reached a worker.',
    buckets: FAST_SECONDS,
    registers,
  });
  const lateWakes = new Counter({
    name: 'pushpacer_late_wakes_total',
    help: 'Requeued notifications that reached a worker later than the tolerance of LIMIT_MIN_GAP and LIMIT_RULES.',
    registers,
  });
  const mostLate = new Gauge({
    name: 'pushpacer_wake_lateness_most_seconds',
    help: 'The most of pushpacer_wake_lateness_seconds since the worker started.',
    registers,
  });
  let mostLateMs = 0;
  const provider = new Histogram({
    name: 'pushpacer_provider_seconds',
    help: "Time to a provider's answer, by platform, app (none: that of the environment) and meaning.",
    labelNames: ['platform', 'app', 'meaning'],
    buckets: FAST_SECONDS,
    registers,
  });
  const unprioritised = new Counter({
    name: 'pushpacer_unprioritised_jobs_total',
    help: 'Jobs added without a priority: BullMQ takes them before all jobs that are due.',
    registers,
  });
  new Gauge({
    name: 'pushpacer_queue_jobs',
    help: 'Jobs in the queue, by state.',
    labelNames: ['state'],
    registers,
    async collect() {
      const depth = await sources.queueDepth();
      this.reset(); // if Redis does not answer, no number is better than an old one
      for (const [state, count] of Object.entries(depth)) this.set({ state }, count);
    },
  });
  new Gauge({
    name: 'pushpacer_breaker_open_seconds',
    help: "How much longer a provider's circuit breaker stays open; 0 when it is closed or half open.",
    labelNames: ['platform', 'app', 'server'],
    registers,
    collect() {
      this.reset(); // an app may be gone
      for (const [service, ms] of sources.breakersOpenMs()) this.set(namesOf(service), ms / 1000);
    },
  });
  const breakersOpened = new Counter({
    name: 'pushpacer_breaker_opened_total',
    help: 'Openings of circuit breakers that this replica learned of, by trouble. All replicas share all but outages.',
    labelNames: ['platform', 'app', 'server', 'trouble'],
    registers,
  });
  const breakerTrials = new Counter({
    name: 'pushpacer_breaker_trials_total',
    help: 'Trials of a half open circuit breaker by this replica, by result: success (it closed), failure, or unused.',
    labelNames: ['platform', 'app', 'server', 'result'],
    registers,
  });

  return {
    registry,
    passEnded(result) {
      if (result.kind === 'requeued') {
        requeues.inc({ rule: result.rule });
        if (result.rule !== SEND_AFTER) waits.observe(result.waitMs / 1000);
      } else if (result.kind === 'retried' || result.kind === 'held') {
        retries.inc({ kind: result.kind });
      } else if (result.kind === 'dead-letter') {
        outcomes.inc({ outcome: 'dead-lettered', reason: result.reason });
      } else {
        outcomes.inc({ outcome: result.kind, reason: '' });
      }
    },
    reply: (account, meaning, tookMs) => provider.observe({ ...namesOf(account), meaning }, tookMs / 1000),
    woken(lateMs) {
      lateness.observe(Math.max(0, lateMs) / 1000);
      mostLateMs = Math.max(mostLateMs, lateMs);
      mostLate.set(mostLateMs / 1000);
      if (lateMs > lateAfterMs) lateWakes.inc();
    },
    unprioritised: () => unprioritised.inc(),
    breakerOpened: (service, trouble) => breakersOpened.inc({ ...namesOf(service), trouble }),
    breakerTrial: (service, result) => breakerTrials.inc({ ...namesOf(service), result }),
  };
}

/** `offsetsMs` is read at each scrape: Redis's clock minus this worker's, in milliseconds, one number for each queue. */
export function createClockMetrics(registry: Registry, offsetsMs: () => readonly number[]): void {
  new Gauge({
    name: 'pushpacer_clock_offset_seconds',
    help: "Redis's clock minus this worker's; of several queues, the one that is furthest from 0.",
    registers: [registry],
    collect() {
      const furthestMs = offsetsMs().reduce((most, next) => (Math.abs(next) > Math.abs(most) ? next : most), 0);
      this.set(furthestMs / 1_000);
    },
  });
}
