import { Gauge, type Registry } from 'prom-client';

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
