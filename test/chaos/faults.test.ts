import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { main } from '../../chaos/chaos.ts';
import { planFaults, WORKERS, type Fault } from '../../chaos/faults.ts';
import { stopsWithoutRedis, thawsOf, type Freeze } from '../../chaos/fleet.ts';
import { countBreakers, parseLog, type LogLine } from '../../chaos/logs.ts';
import { describeFault } from '../../chaos/report.ts';
import { findLeaks, secretsOf } from '../../chaos/run.ts';
import type { BreakerChange } from '../../src/breaker/breaker.ts';
import { PLATFORMS } from '../../src/notification/notification.ts';
import { createLog } from '../../src/observe/log.ts';
import { createBreakerListener } from '../../workers/breakers.ts';
import { runMain } from '../support/command.ts';
import { openSandbox } from '../support/providers.ts';

const KINDS: readonly Fault['kind'][] = [
  'kill-worker',
  'restart-worker',
  'stop-worker',
  'kill-redis',
  'pause-redis',
  'cut-clients',
  'answers',
  'go-away',
  'drop-connections',
  'close-idle',
  'odd-device',
  'revoke-key',
  'provider-down',
];
const SEEDS = Array.from({ length: 200 }, (_, seed) => seed);
const endOf = (fault: Fault) => fault.atMs + ('forMs' in fault ? fault.forMs : 0);

describe('the plan of faults', () => {
  it('is the same for the same seed and time, and another for another seed', () => {
    expect(planFaults(7, 30)).toEqual(planFaults(7, 30));
    expect(planFaults(8, 30)).not.toEqual(planFaults(7, 30));
  });

  it.each([10, 20, 60, 120])('has every kind of fault within %i seconds, whatever the seed', (seconds) => {
    for (const seed of SEEDS) {
      const plan = planFaults(seed, seconds);
      expect([...new Set(plan.map(({ kind }) => kind))].sort()).toEqual([...KINDS].sort());
      expect(plan.map(({ atMs }) => atMs)).toEqual(plan.map(({ atMs }) => atMs).toSorted((a, b) => a - b));
      expect(Math.max(...plan.map(endOf))).toBeLessThanOrEqual(seconds * 1_000);
    }
  });

  it('on a cluster has one kill and two moves of a slot or more, and the same faults of all else', () => {
    const isOfRedis = ({ kind }: Fault) => ['kill-redis', 'pause-redis', 'cut-clients', 'move-slot'].includes(kind);
    for (const seed of SEEDS) {
      const plan = planFaults(seed, 30, true);
      expect(plan.filter((fault) => !isOfRedis(fault))).toEqual(
        planFaults(seed, 30).filter((fault) => !isOfRedis(fault)),
      );
      const moved = plan.flatMap((fault) => (fault.kind === 'move-slot' ? [fault.of] : []));
      expect(moved).toEqual(['shard', 'recipient']);
      for (const kind of ['kill-redis', 'pause-redis', 'cut-clients']) {
        expect(plan.filter((fault) => fault.kind === kind)).toHaveLength(1);
      }
      expect(Math.max(...plan.map(endOf))).toBeLessThanOrEqual(30_000);
    }
  });

  it('freezes one worker for longer than its lock', () => {
    for (const seed of SEEDS) {
      const longest = Math.max(
        ...planFaults(seed, 20).map((fault) => (fault.kind === 'stop-worker' ? fault.forMs : 0)),
      );
      expect(longest).toBeGreaterThan(5_000);
    }
  });

  it('strikes no worker that is frozen, and neither Redis nor a provider twice at once', () => {
    for (const seed of SEEDS) {
      const plan = planFaults(seed, 60);
      for (let worker = 0; worker < WORKERS; worker++) {
        expectNoOverlap(plan.filter((fault) => 'worker' in fault && fault.worker === worker));
      }
      expectNoOverlap(plan.filter(({ kind }) => ['kill-redis', 'pause-redis', 'cut-clients'].includes(kind)));
      for (const platform of PLATFORMS) {
        const its = plan.filter(
          (fault) => 'platform' in fault && fault.platform === platform && fault.kind !== 'odd-device',
        );
        expectNoOverlap(its.filter(({ kind }) => kind === 'answers'));
        expectNoOverlap(its.filter(({ kind }) => kind !== 'answers'));
      }
    }
  });

  it('has every way in which a connection goes away, and every odd device, at the provider that knows it', () => {
    for (const seed of SEEDS) {
      const plan = planFaults(seed, 20);
      for (const platform of PLATFORMS) {
        const kinds = plan
          .filter((fault) => 'platform' in fault && fault.platform === platform)
          .map(({ kind }) => kind);
        expect(kinds).toEqual(expect.arrayContaining(['go-away', 'close-idle', 'drop-connections', 'provider-down']));
        const scopes = plan.flatMap((fault) =>
          fault.kind === 'answers' && fault.platform === platform
            ? fault.rates.map(({ answer }) => (answer.kind === 'reset' ? answer.scope : undefined))
            : [],
        );
        expect(scopes).toEqual(expect.arrayContaining(['stream', 'connection', 'refused-stream']));
      }
      const odd = plan.flatMap((fault) => (fault.kind === 'odd-device' ? [`${fault.platform} ${fault.word}`] : []));
      expect(odd.toSorted()).toEqual(['apns BadDeviceToken', 'fcm QUOTA_EXCEEDED', 'fcm THIRD_PARTY_AUTH_ERROR']);
    }
  });

  it('asks for no share of the answers beyond all of them', () => {
    for (const fault of SEEDS.flatMap((seed) => planFaults(seed, 60))) {
      if (fault.kind !== 'answers') continue;
      const shares = fault.rates.map(({ rate }) => rate);
      expect(Math.min(...shares)).toBeGreaterThan(0);
      expect(shares.reduce((sum, share) => sum + share, 0)).toBeLessThan(0.5);
    }
  });

  it('is printed by the command without a run', async () => {
    const exit = await runMain(main, ['--plan', '--seconds', '12', '--seed', '3']);
    expect(exit).toMatchObject({
      code: 0,
      stdout: planFaults(3, 12)
        .map((fault) => `${describeFault(fault)}\n`)
        .join(''),
    });
    expect(exit.stdout).toMatch(/worker \d is frozen for \d\.\d s/);
  });
});

it.each([
  [['--seconds', '9'], '--seconds: expected an integer from 10 to 3600, found "9"'],
  [['--seed', '-1'], '--seed: expected an integer from 0 to'],
  [['--notifications', 'many'], '--notifications: expected an integer'],
])('refuses %j as bad usage', async (flags, fault) => {
  const { code, stderr } = await runMain(main, flags);
  expect(stderr).toContain(fault);
  expect(code).toBe(2);
});

function expectNoOverlap(faults: readonly Fault[]): void {
  const overlapping = faults.filter((fault, index) => {
    const next = faults[index + 1];
    return next !== undefined && endOf(fault) > next.atMs;
  });
  expect(overlapping).toEqual([]);
}

/** What a worker's log says of a breaker that opens and then closes. */
function linesOf(open: NonNullable<BreakerChange['open']>): string {
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => void lines.push(line) });
  const listener = createBreakerListener({
    metrics: { breakerOpened: () => undefined, breakerTrial: () => undefined },
    log,
  });
  listener({ service: open.service, open, before: undefined });
  listener({ service: open.service, open: undefined, before: open });
  return lines.join('');
}

const open = { service: 'fcm', trouble: 'auth', code: 'UNAUTHENTICATED', since: 0, until: 1 } as const;
const logs = (text: string) => new Map([['worker-0.log', parseLog(text)]]);

describe('the logs of workers', () => {
  it('reads the notification of each pass that ended, when, and the ids that the process’s locks begin with', () => {
    const time = '2026-03-01T07:30:00.123Z';
    const pass = { level: 'info', time, jobId: 'n7#r1', id: 'n7', outcome: 'delivered', msg: 'delivered' };
    const other = { level: 'warn', time, jobId: 'n8', msg: 'Redis did not take the result of this pass' };
    const ready = { level: 'info', time, workerIds: ['w1'], msg: 'ready' };
    const lines = [JSON.stringify(pass), '(node:1) Warning: no JSON', JSON.stringify(other), JSON.stringify(ready)];
    const at = Date.parse(time);
    expect(parseLog(`${lines.join('\n')}\n{"half`)).toEqual([{ at, id: 'n7' }, { at }, { at, workerIds: ['w1'] }]);
  });

  it("counts the breakers that opened, in the words of the worker's log", () => {
    const counted = countBreakers(logs(linesOf(open)));
    expect(counted).toEqual({ breakersOpened: { auth: 1 }, breakersByOneDevice: [] });
  });

  it('finds a breaker that an answer about one device opened', () => {
    const { breakersByOneDevice } = countBreakers(logs(linesOf({ ...open, code: 'THIRD_PARTY_AUTH_ERROR' })));
    expect(breakersByOneDevice).toEqual([expect.stringContaining('fcm, THIRD_PARTY_AUTH_ERROR, in worker-0.log')]);
  });
});

const MARKER = '0123456789ab';

it('finds tokens, texts, keys and credentials, and says where and of which kind', async () => {
  const env = (await openSandbox()).env();
  const secrets = await secretsOf(MARKER, env);
  const kinds = (text: string) => findLeaks('a log', text, secrets).map(({ name }) => name);
  const apnsKey = await readFile(env['APNS_KEY_FILE'] ?? '', 'utf8');
  const account = JSON.parse(await readFile(env['GOOGLE_APPLICATION_CREDENTIALS'] ?? '', 'utf8')) as {
    private_key: string;
  };

  expect(kinds('{"level":"info","id":"n17","recipientId":"recipient-3","msg":"delivered"}')).toEqual([]);
  expect(kinds(`token 00${MARKER.toUpperCase()}00`)).toEqual(['a token or a text']);
  expect(kinds(apnsKey.split('\n')[1] ?? '')).toEqual(['the key of APNS_KEY_FILE']);
  expect(kinds(JSON.stringify(account.private_key))).toEqual(['the key of GOOGLE_APPLICATION_CREDENTIALS']);
  expect(kinds('authorization: Bearer owner')).toEqual(['a bearer token']);
  expect(kinds('eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJTQU5EQk9YIn0.c2ln')).toEqual(['a JWT']);
  expect(findLeaks('a log', `${MARKER} ${MARKER}`, secrets)).toEqual([
    { where: 'a log', name: 'a token or a text', times: 2 },
  ]);
});

const freeze: Freeze = {
  log: 'worker-1.log',
  at: 1_000,
  forMs: 500,
  thawedAt: 1_520,
  holders: new Map([
    ['a', 'first'],
    ['b', 'first'],
    ['c', 'second'],
    ['d', 'second'],
  ]),
};
const thawOf = (log: readonly LogLine[], more: Partial<Freeze> = {}) =>
  thawsOf([{ ...freeze, ...more }], new Map([['worker-1.log', log]]))[0];
const ready = (...workerIds: string[]) => [
  { at: 500, workerIds },
  { at: 1_600, id: 'c' },
];

describe('what a frozen worker had in hand', () => {
  it('is what is locked under one of the ids that it logged when it was ready', () => {
    expect(thawOf(ready('first'))?.ids).toEqual(new Set(['a', 'b']));
    expect(thawOf(ready('second', 'third'))?.ids).toEqual(new Set(['c', 'd']));
    expect(thawOf(ready('third'))?.ids).toEqual(new Set());
  });

  it('is what it logs after the thaw where Redis did not answer', () => {
    const log = [{ at: 900, id: 'before' }, ...ready('first'), { at: 60_000, id: 'long-after' }];
    expect(thawOf(log, { holders: new Map() })?.ids).toEqual(new Set(['c']));
    // It goes on before this run has written down that it does.
    expect(thawOf([{ at: 1_505, id: 'e' }], { holders: new Map() })?.ids).toEqual(new Set(['e']));
  });

  it('is nothing where the worker left no log', () => {
    expect(thawOf(ready('first'), { log: 'worker-2.log' })?.ids).toEqual(new Set());
    expect(thawOf(ready('first'), { log: 'worker-2.log', holders: new Map() })?.ids).toEqual(new Set());
  });
});

it('may arrive from the thaw until a moment after it', () => {
  const { from = 0, until = 0 } = thawOf(ready('first')) ?? {};
  expect(from).toBe(1_500);
  expect(until).toBeGreaterThan(1_520);
  expect(until).toBeLessThanOrEqual(1_520 + 500);
});

describe('a freeze while Redis was away', () => {
  const silent: Freeze = { ...freeze, forMs: 5_000, thawedAt: 6_020, holders: new Map() };
  const log = [
    { at: 900, id: 'before' },
    { at: 6_030, id: 'a' },
    { at: 6_040 },
    { at: 9_000, id: 'b' },
    { at: 60_000, id: 'long-after' },
  ];
  const stops = (one: Freeze) => stopsWithoutRedis([one], new Map([['worker-1.log', log]]));

  it('interrupted what the worker logs after the thaw', () => {
    expect(stops(silent)).toEqual([{ kind: 'stop', at: 1_000, until: 1_000, ids: new Set(['a', 'b']) }]);
  });

  it('is what Redis says where it can, and harmless where it was short', () => {
    expect(stops({ ...silent, holders: freeze.holders })).toEqual([]);
    expect(stops({ ...silent, forMs: 500 })).toEqual([]);
  });
});
