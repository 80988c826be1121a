import { formatDuration } from '../domain/time.ts';
import type { Fault } from '../domain/faults.ts';
import type { Variables } from './variables.ts';

/** Faults of variables that are well-formed but contradict each other. `given`: the environment without defaults. */
export function contradictions(variables: Variables, given: Readonly<Record<string, unknown>>): Fault[] {
  return [...redisFaults(variables, 'REDIS_URL' in given), ...sentinelFaults(variables), ...pauseFaults(variables)];
}

function redisFaults(variables: Variables, hasUrl: boolean): Fault[] {
  const { REDIS_CLUSTER: isCluster, REDIS_SENTINEL_NAME: sentinel, QUEUE_PREFIX: prefix } = variables;
  const faults: Fault[] = [];
  if (isCluster && !/\{[^{}]+\}/.test(prefix)) {
    const expected = 'a prefix with a {tag}, since REDIS_CLUSTER is true';
    faults.push({ path: 'QUEUE_PREFIX', expected, found: JSON.stringify(prefix) });
  }
  if (sentinel !== undefined && !hasUrl) {
    faults.push({ path: 'REDIS_URL', expected: 'Sentinels, since REDIS_SENTINEL_NAME is given', found: 'nothing' });
  }
  for (const name of ['REDIS_URL', 'LIMITER_REDIS_URL'] as const) {
    const count = variables[name]?.length ?? 1;
    if (isCluster || sentinel !== undefined || count === 1) continue;
    const expected = 'one URL, or REDIS_CLUSTER=true, or a REDIS_SENTINEL_NAME';
    faults.push({ path: name, expected, found: `${count} URLs` });
  }
  return faults;
}

function sentinelFaults(variables: Variables): Fault[] {
  const { REDIS_CLUSTER: isCluster, REDIS_SENTINEL_NAME: sentinel } = variables;
  if (sentinel !== undefined) {
    const found = JSON.stringify(sentinel);
    return isCluster ? [{ path: 'REDIS_SENTINEL_NAME', expected: 'none, since REDIS_CLUSTER is true', found }] : [];
  }
  return (['LIMITER_REDIS_SENTINEL_NAME', 'REDIS_SENTINEL_PASSWORD'] as const)
    .filter((name) => variables[name] !== undefined)
    .map((path) => ({ path, expected: 'none without REDIS_SENTINEL_NAME', found: 'one' }));
}

function pauseFaults({ PROVIDER_PAUSE_BASE: baseMs, PROVIDER_PAUSE_MAX: maxMs }: Variables): Fault[] {
  if (baseMs <= maxMs) return [];
  const expected = `a duration of PROVIDER_PAUSE_BASE (${formatDuration(baseMs)}) or more`;
  return [{ path: 'PROVIDER_PAUSE_MAX', expected, found: formatDuration(maxMs) }];
}
