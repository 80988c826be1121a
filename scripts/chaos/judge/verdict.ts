import type { Balance } from './balance.ts';
import type { BreakerOpenings } from '../run/logs.ts';
import type { Duplicates } from './duplicates.ts';
import type { Pacing } from './pacing.ts';

/** The result of a run, counted only from what the providers received and from the queue. */
export interface ChaosResult
  extends
    Omit<Balance, 'suspects'>,
    Omit<Pacing, 'bursts' | 'burstsAfterFreeze' | 'burstsAfterStall'>,
    Omit<Duplicates, 'unexplained' | 'explainedBy'>,
    Pick<BreakerOpenings, 'breakersOpened'> {
  readonly duplicatesBy: Duplicates['explainedBy'];
  /** Requests of no notification that was enqueued. */
  readonly unknownRequests: number;
  /** Requests for a digest that providers accepted. */
  readonly digests: number;
  /** Silent alerts in quiet hours that providers accepted. */
  readonly quietAlerts: number;
  /** Of those that waited together or were canceled: what went otherwise than it must. */
  readonly waitingFaults: number;
  /** Circuit breakers that an answer about one device opened. */
  readonly breakersByOneDevice: number;
  readonly secretsLeaked: number;
  readonly processesLeft: number;
  /** Workers that ended by themselves, or with an error. */
  readonly crashes: number;
  readonly requeues: number;
  readonly kills: number;
  /** Workers that were frozen for a while. */
  readonly stops: number;
  readonly restarts: number;
  readonly redisRestarts: number;
  readonly redisPauses: number;
  readonly redisCuts: number;
  /** Single devices, of thousands, that got their odd answer at least once. */
  readonly oddDevices: number;
  /** Alerts that browsers got. */
  readonly browserPushes: number;
  /** Requests that the providers refused, or left without an answer. */
  readonly refusals: number;
  readonly drainMs: number;
  readonly longestStallMs: number;
  readonly seed: number;
  readonly seconds: number;
}

export interface Check {
  readonly what: string;
  readonly found: string;
  readonly ok: boolean;
}

/** Each promise, with what was found. A run fails if one does not hold. */
export function checks(result: ChaosResult): Check[] {
  const none = (what: string, found: number): Check => ({ what, found: `${found} (expected 0)`, ok: found === 0 });
  const some = (what: string, found: number): Check => ({ what, found: String(found), ok: found > 0 });
  return [
    none('lost', result.lost),
    none('unaccounted', result.unaccounted),
    none('still queued', result.stillQueued),
    none('gap violations', result.gapViolations),
    none('window violations', result.windowViolations),
    {
      what: 'late after a freeze',
      found: `${result.lateAfterFreeze} (at most ${result.lateAfterFreezeBound})`,
      ok: result.lateAfterFreeze <= result.lateAfterFreezeBound,
    },
    none('requests that nobody asked for', result.unknownRequests),
    none('faults of what waited together', result.waitingFaults),
    none('breakers that one device opened', result.breakersByOneDevice),
    none('unexplained duplicates', result.unexplainedDuplicates),
    {
      what: 'duplicates',
      found: `${result.duplicates} (at most ${result.duplicateBound})`,
      ok: result.duplicates <= result.duplicateBound,
    },
    none('duplicates under other ids', result.changedIds),
    none('secrets leaked', result.secretsLeaked),
    none('workers that crashed', result.crashes),
    none('processes left', result.processesLeft),
    // A run in which nothing happened would pass all of the above.
    some('delivered', result.delivered),
    some('superseded by a newer one', result.superseded),
    some('merged into a digest', result.merged),
    some('digests', result.digests),
    some('canceled', result.canceled),
    some('silent alerts in quiet hours', result.quietAlerts),
    some('background pushes', result.backgroundPushes),
    some('alerts to browsers', result.browserPushes),
    some('requeues', result.requeues),
    some('workers killed', result.kills),
    some('workers frozen', result.stops),
    some('workers restarted', result.restarts),
    some('restarts of a killed Redis', result.redisRestarts),
    some('pauses of Redis', result.redisPauses),
    some('times that Redis cut every connection', result.redisCuts),
    some(
      'breakers opened',
      Object.values(result.breakersOpened).reduce((sum, count) => sum + count, 0),
    ),
    some('odd devices among thousands', result.oddDevices),
    some('requests that a provider did not accept', result.refusals),
  ];
}
