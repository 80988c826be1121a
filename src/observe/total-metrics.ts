import { AggregatorRegistry, type Registry } from 'prom-client';

/** The metrics of one worker as they come from its process: prom-client's JSON, and the id of their registry. */
export interface WorkerMetrics {
  /** A new id means that the counters have begun at 0 again. */
  readonly registryId: string;
  readonly metrics: readonly Metric[];
}

interface Metric {
  readonly name: string;
  readonly type: string;
  /** How prom-client combines metrics of the same name: `sum`, `max`, … */
  readonly aggregator: string;
  readonly values: readonly { readonly value: number; readonly labels: Readonly<Record<string, string | number>> }[];
}

/**
 * One page of the metrics of several workers:
 *
 * - Counters and histograms are sums. When a worker ends, its last known counts stay in the sums: if a sum became lower,
 *   Prometheus would take it for a counter that has begun at 0 again.
 * - A number that is the same for all workers (`max`, shared-metrics.ts) is there once.
 * - All other gauges, and counters that are neither sums nor the same for all (`omit`), have a label `worker`.
 */
export interface TotalMetrics {
  /** Notes the latest metrics of a worker. @param worker its number, from 1 on */
  note(worker: number, latest: WorkerMetrics): void;
  /** The page. @param answering the numbers of the workers that have just sent their metrics */
  page(answering: ReadonlySet<number>): Registry;
}

export function createTotalMetrics(): TotalMetrics {
  const latest = new Map<number, WorkerMetrics>();
  /** The sums of registries that are gone. */
  let ended: readonly Metric[] = [];
  return {
    note(worker, next) {
      const before = latest.get(worker);
      if (before !== undefined && before.registryId !== next.registryId) {
        const metrics = together([ended, sumsOf(before)]).getMetricsAsArray();
        ended = metrics as unknown as Metric[]; // prom-client's type leaves out the values
      }
      latest.set(worker, next);
    },
    page(answering) {
      const all = [...latest].map(([worker, each]) => (answering.has(worker) ? labelled(each, worker) : sumsOf(each)));
      return together([...all, ended]);
    },
  };
}

function together(lists: readonly (readonly Metric[])[]): Registry {
  return AggregatorRegistry.aggregate([...lists]);
}

function sumsOf({ metrics }: WorkerMetrics): Metric[] {
  return metrics.filter(({ type, aggregator }) => type !== 'gauge' && aggregator === 'sum');
}

function labelled({ metrics }: WorkerMetrics, worker: number): Metric[] {
  return metrics.map((metric) => {
    const isOwn = metric.type === 'gauge' ? metric.aggregator !== 'max' : metric.aggregator === 'omit';
    if (!isOwn) return metric;
    const values = metric.values.map((each) => ({ ...each, labels: { ...each.labels, worker: String(worker) } }));
    return { ...metric, aggregator: 'sum', values };
  });
}
