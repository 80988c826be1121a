import { readFile } from 'node:fs/promises';
import type { Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import { createMetrics } from '../../src/observe/metrics.ts';
import * as shared from '../../src/observe/shared-metrics.ts';
import { documentedMetrics, type DocumentedMetric } from '../support/metrics-page.ts';

const documented = await documentedMetrics();

/** Every metric that a worker may have, as it declares it. */
function declared(): DocumentedMetric[] {
  const { registry } = createMetrics({ lateAfterMs: 0, breakersOpenMs: () => [], unreachableMs: () => [] });
  shared.createQueueMetrics(registry, () => Promise.resolve(undefined));
  shared.createDeadLetterMetrics(registry, () => Promise.resolve(undefined));
  shared.createQuotaMetrics(registry, () => Promise.resolve([]));
  shared.createRedisMetrics(registry, () => Promise.resolve([]));
  shared.createLossMetrics(registry, []);
  shared.createClockMetrics(registry, () => []);
  return ownOf(registry);
}

interface Declared {
  readonly name: string;
  readonly labelNames?: readonly string[];
}

function ownOf(registry: Registry): DocumentedMetric[] {
  const metrics = registry.getMetricsAsArray() as unknown as Declared[];
  return metrics
    .filter(({ name }) => name.startsWith('pushpacer_'))
    .map((metric) => ({
      name: metric.name,
      type: metric.constructor.name.toLowerCase(),
      labels: metric.labelNames ?? [],
    }));
}

describe('docs/metrics.md', () => {
  const sorted = (metrics: readonly DocumentedMetric[]) =>
    metrics.map(({ name, type, labels }) => `${name} ${type} ${labels.toSorted().join()}`).toSorted();

  it('has a line for each metric, with its type and its labels, and for no other', () => {
    expect(documented.length).toBeGreaterThan(35);
    expect(sorted(documented)).toEqual(sorted(declared()));
  });

  it('asks for metrics that there are, and has an expression for each, which names it', async () => {
    const names = new Set(documented.map(({ name }) => name));
    const page = await readFile('docs/metrics.md', 'utf8');
    const named = [...page.matchAll(/pushpacer_[a-z_]+/g)].map(([name]) => name.replace(/_(?:bucket|count|sum)$/, ''));
    expect([...new Set(named)].filter((name) => !names.has(name))).toEqual([]);
    expect(documented.filter(({ name, ask = '' }) => !ask.includes(name))).toEqual([]);
  });
});
