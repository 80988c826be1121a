import type { Logs } from './logs.ts';

/** Openings of circuit breakers, from the workers' logs. */
export interface BreakerOpenings {
  /** Log lines of breakers that opened or stayed open, by trouble; each worker logs its own. */
  readonly breakersOpened: Readonly<Record<string, number>>;
  /** Breakers that were opened by an answer about one device, which says nothing about the provider. */
  readonly breakersByOneDevice: readonly string[];
}

/** Answers about one device of thousands, whatever their status. QUOTA_EXCEEDED of many devices may mean the project. */
const OF_ONE_DEVICE = new Set([
  'BadDeviceToken',
  'Unregistered',
  'SENDER_ID_MISMATCH',
  'THIRD_PARTY_AUTH_ERROR',
  'UNREGISTERED',
]);

export function countBreakers(logs: Logs): BreakerOpenings {
  const told = [...logs].flatMap(([log, lines]) =>
    lines.flatMap(({ at, breaker }) => (breaker === undefined ? [] : [{ log, at, ...breaker }])),
  );
  const byTrouble = Map.groupBy(told, ({ trouble }) => trouble);
  return {
    breakersOpened: Object.fromEntries([...byTrouble].map(([trouble, lines]) => [trouble, lines.length])),
    breakersByOneDevice: told
      .filter(({ code }) => OF_ONE_DEVICE.has(code))
      .map(({ log, at, platform, code }) => `${platform}, ${code}, in ${log} at ${new Date(at).toISOString()}`),
  };
}
