import { randomUUID } from 'node:crypto';
import type { Platform } from '../domain/notification.ts';
import { createComeBack } from './come-back.ts';
import { createWindow } from './evidence.ts';
import { createLocal } from './local.ts';
import type { Entry, Evidence, Pause, PauseChange, Probe } from './pauses.ts';
import { opened, pauseMs, reopened, type Opening, type PauseTerms, type Standing } from './rules.ts';
import type { Changed, Reading, Store } from './store.ts';

export interface ProviderPauseParts {
  readonly store: Store;
  readonly terms: PauseTerms;
  /** Epoch milliseconds on this machine's clock. */
  readonly now: () => number;
  readonly onChange: (change: PauseChange) => void;
  readonly onProbe: (end: ProbeEnd) => void;
}

/** What became of a probe of this worker. */
export interface ProbeEnd {
  readonly platform: Platform;
  /** `unused`: nothing was sent on it. */
  readonly result: 'well' | 'failed' | 'unused';
}

/** The pause of one provider as one worker has it: what the worker sees counts at once, and is shared as soon as Redis has it. */
export interface ProviderPause {
  current(): Pause | undefined;
  enter(): Promise<Entry>;
  report(evidence: Evidence, probe?: Probe): void;
  release(probe: Probe): void;
  comeBackAt(enqueuedAt: number): number;
  /** Says whether a reading that is asked for now is to be believed when it comes. */
  mark(): (reading: Reading) => void;
  /** Shares what Redis did not take. */
  share(): void;
  close(): Promise<void>;
}

/** How long a probe is lent: longer than any send takes. Who was killed with it keeps it no longer than this. */
export const LEASE_MS = 20_000;
/** Where another one probes: most sends are answered in less. */
const ELSEWHERE_MS = 1_000;

/** A probe, and the version of the pause that it was lent in. */
interface Lent {
  readonly id: string;
  readonly version: number;
}

/** What Redis did not take: the pause as it stands, with the probe that renewed it, or its end, which a probe found. */
type Unshared = { readonly kind: 'pause'; readonly probe?: Lent } | { readonly kind: 'end'; readonly probe: Lent };

export function createProviderPause(platform: Platform, parts: ProviderPauseParts): ProviderPause {
  const { store, terms, now, onChange, onProbe } = parts;
  const window = createWindow();
  const comeBack = createComeBack();
  const local = createLocal(platform, {
    now,
    onChange,
    onTurn({ pause, before }) {
      comeBack.reset();
      if (pause === undefined || before === undefined) window.clear();
    },
  });
  /** The probe that this worker has, and until when (`performance.now()`) nobody else can have it. */
  let held: (Lent & { readonly until: number }) | undefined;
  let claiming: Promise<Probe | undefined> | undefined;
  let unshared: Unshared | undefined;
  const writes = new Set<Promise<void>>();
  let written = 0;
  let isOurs = false;

  /** Until the last of several writes has been answered, Redis is behind what this worker knows. */
  function write(call: Promise<Changed>, orElse: Unshared | undefined): void {
    written += 1;
    const ended = call.then(
      (changed) => {
        writes.delete(ended);
        isOurs ||= ['opened', 'extended', 'closed'].includes(changed.verdict);
        if (writes.size > 0) return;
        unshared = undefined;
        local.adopt(changed);
        local.tell(isOurs ? 'us' : 'others');
        isOurs = false;
      },
      () => {
        writes.delete(ended);
        unshared = orElse ?? unshared;
        local.tell('us');
        if (writes.size === 0) isOurs = false;
      },
    );
    writes.add(ended);
  }

  function open(opening: Opening): void {
    const { standing } = local;
    const next = opened(standing, opening, now());
    if (next === standing) return;
    local.become(next);
    write(store.open(platform, { ...opening, step: 0, agoMs: 0 }), { kind: 'pause' });
  }

  /** The provider is there, or not: the answers of several notifications tell, the first against a pause as well. */
  function weigh({ notificationId, code, trouble }: Evidence): void {
    const { standing, version } = local;
    const isHit = (trouble === undefined) === (standing !== undefined);
    if (!window.add({ at: performance.now(), notificationId, isHit })) return;
    window.clear();
    if (standing === undefined) {
      open({ trouble: 'outage', code, forMs: pauseMs('outage', 0, undefined, terms), mayExtend: false });
    } else if (version !== 0) {
      write(store.settle(platform, { id: '', version }), undefined);
    }
  }

  function witness(evidence: Evidence): void {
    const { trouble, code, retryAfterMs } = evidence;
    if (trouble === 'auth' || trouble === 'quota') {
      const forMs = pauseMs(trouble, 0, retryAfterMs, terms);
      open({ trouble, code, forMs, mayExtend: trouble === 'quota' && retryAfterMs !== undefined });
    } else if (local.standing === undefined || local.standing.trouble === 'outage') {
      weigh(evidence);
    }
  }

  /** Gives the probe away. Undefined where another one may have it by now. */
  function hand({ id }: Probe): Lent | undefined {
    if (held?.id !== id) return undefined;
    const { until, version } = held;
    held = undefined;
    return performance.now() < until ? { id, version } : undefined;
  }

  function settle({ trouble, code, retryAfterMs }: Evidence, probe: Probe): void {
    const mine = hand(probe);
    const settled = mine ?? { id: probe.id, version: 0 };
    const { standing } = local;
    onProbe({ platform, result: trouble === undefined ? 'well' : 'failed' });
    if (trouble === undefined) {
      if (mine) local.become(undefined);
      write(store.settle(platform, settled), mine && { kind: 'end', probe: mine });
    } else if (standing !== undefined) {
      const failure = { trouble, code, forMs: pauseMs(trouble, standing.step + 1, retryAfterMs, terms) };
      if (mine) local.become(reopened(standing, failure, now()));
      write(
        store.settle(platform, settled, { ...failure, step: standing.step + 1 }),
        mine && { kind: 'pause', probe: mine },
      );
    }
  }

  async function claim(): Promise<Probe | undefined> {
    const id = randomUUID();
    const until = performance.now() + LEASE_MS;
    const before = written;
    try {
      if (unshared) throw new Error('Redis does not know of the pause');
      const claimed = await store.claim(platform, id, LEASE_MS);
      if (written === before) {
        local.adopt(claimed);
        local.tell('others');
      }
      if (claimed.verdict !== 'claimed') return undefined;
      held = { id, until, version: claimed.shared?.until ?? 0 };
    } catch {
      if (local.standing === undefined || now() < local.standing.until) return undefined;
      held = { id, until, version: local.version }; // this worker's own: one at a time
    }
    return { platform, id };
  }

  function isLent(): boolean {
    return local.isLent() || (held !== undefined && performance.now() < held.until);
  }

  function withoutProbe(): Entry {
    const { standing } = local;
    if (standing === undefined) return { kind: 'open' };
    const at = now();
    return { kind: 'paused', pause: at < standing.until ? standing : { ...standing, until: at + ELSEWHERE_MS } };
  }

  return {
    current: () => local.standing,
    async enter() {
      const { standing } = local;
      if (standing === undefined || now() < standing.until || isLent()) return withoutProbe();
      if (claiming) {
        await claiming;
        return withoutProbe();
      }
      claiming = claim().finally(() => (claiming = undefined));
      const probe = await claiming;
      return probe ? { kind: 'probe', probe } : withoutProbe();
    },
    report(evidence, probe) {
      if (probe) settle(evidence, probe);
      else witness(evidence);
    },
    release(probe) {
      hand(probe);
      onProbe({ platform, result: 'unused' });
      write(store.release(platform, probe.id), undefined);
    },
    comeBackAt: (enqueuedAt) => comeBack.next(local.standing, enqueuedAt, now()),
    mark() {
      const before = written;
      return (reading) => {
        if (written !== before || writes.size > 0 || unshared) return;
        local.adopt(reading);
        local.tell('others');
      };
    },
    share() {
      if (!unshared || writes.size > 0) return;
      const { standing } = local;
      const { kind, probe } = unshared;
      const at = now();
      if (standing === undefined) {
        if (kind === 'end') write(store.settle(platform, probe), unshared);
        else unshared = undefined;
      } else if (standing.trouble !== 'outage') {
        write(store.open(platform, { ...toOpening(standing, at), mayExtend: true }), unshared);
      } else if (kind === 'pause' && probe) {
        write(store.settle(platform, probe, toOpening(standing, at)), unshared);
      } else {
        // Redis and the provider away at once: most likely this worker's own network, which must not stop the others.
        unshared = undefined;
      }
    },
    async close() {
      await claiming;
      if (held) write(store.release(platform, held.id), undefined);
      await Promise.all(writes);
    },
  };
}

/** What is left of a pause. */
function toOpening({ trouble, code, since, until, step }: Standing, at: number) {
  return { trouble, code, forMs: Math.round(until - at), step, agoMs: Math.round(at - since) };
}
