import { describe, expect, it } from 'vitest';
import { main } from '../../../chaos/chaos.ts';
import { describeFault } from '../../../chaos/report.ts';
import { planFaults, WORKERS, type Fault } from '../../../chaos/faults.ts';
import { PLATFORMS } from '../../../src/domain/notification.ts';
import { runMain } from '../../support/command.ts';

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

  it('is told by the command without a run', async () => {
    const told = await runMain(main, ['--plan', '--seconds', '12', '--seed', '3']);
    expect(told).toMatchObject({
      code: 0,
      stdout: planFaults(3, 12)
        .map((fault) => `${describeFault(fault)}\n`)
        .join(''),
    });
    expect(told.stdout).toMatch(/worker \d is frozen for \d\.\d s/);
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
