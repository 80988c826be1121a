import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { documentedMetrics } from '../../support/metrics-page.ts';
import { checkMetrics, startPrometheus } from '../../support/prometheus.ts';
import { temporaryFolder } from '../../support/program.ts';
import { makeNotification } from '../../support/push.ts';
import { openReplicaBench } from '../../support/replica.ts';
import { waitFor } from '../../support/wait.ts';

it('the metrics of a worker that has delivered, requeued and dead-lettered are as Prometheus wants them', async () => {
  const { queue, startHere, line } = await openReplicaBench();
  const { url } = await startHere({ METRICS_PORT: '0', APNS_QUOTA: '600000/1m', LIMIT_MIN_GAP: '300ms' });
  for (let each = 0; each < 2; each++) await queue.add('push', makeNotification(), { priority: 10 });
  await queue.add('push', { recipientId: 'teacher-42' }, { priority: 10 });
  for (const outcome of ['requeued', 'dead-lettered']) await line(new RegExp(`"outcome":"${outcome}"`));
  const read = async (): Promise<string> => (await fetch(`${String(url)}/metrics`)).text();
  const valueOf = (page: string, series: string): number =>
    Number(
      page
        .split('\n')
        .find((each) => each.startsWith(`${series} `))
        ?.slice(series.length),
    );
  await waitFor(async () => {
    const page = await read();
    expect(valueOf(page, 'pushpacer_passes_total{result="delivered"}')).toBe(2);
    expect(valueOf(page, 'pushpacer_dead_letters{reason="invalid"}')).toBe(1);
  });
  const page = await read();
  expect(await checkMetrics(page)).toBe('');
  const served = [...page.matchAll(/^# TYPE (pushpacer_\w+)/gm)].map(([, name]) => name);
  expect(served.toSorted()).toEqual((await documentedMetrics()).map(({ name }) => name).toSorted());

  expect(valueOf(page, 'pushpacer_passes_total{result="requeued"}')).toBeGreaterThanOrEqual(1);
  expect(valueOf(page, 'pushpacer_slot_lateness_seconds_count')).toBe(1);
  expect(valueOf(page, 'pushpacer_limiter_seconds_count')).toBeGreaterThanOrEqual(3);
  expect(valueOf(page, 'pushpacer_due_jobs')).toBe(0);
  expect(valueOf(page, 'pushpacer_jobs_in_hand')).toBe(0);
  expect(valueOf(page, 'pushpacer_job_places')).toBe(50);
  const ratio = valueOf(page, 'pushpacer_quota_used_ratio{platform="apns",rule="600000/1m"}');
  expect(ratio).toBeGreaterThan(0);
  expect(ratio).toBeLessThan(0.01);
  expect(valueOf(page, 'pushpacer_breaker_state{platform="fcm",state="closed"}')).toBe(1);
  expect(valueOf(page, 'pushpacer_redis_memory_used_bytes{redis="queue"}')).toBeGreaterThan(100_000);
  expect(valueOf(page, 'pushpacer_redis_commands_total{redis="queue"}')).toBeGreaterThan(10);
  expect(page).not.toContain('redis="limiter"');
});

it('every expression of docs/metrics.md can be evaluated', async () => {
  const config = join(await temporaryFolder(), 'prometheus.yml');
  await writeFile(config, 'scrape_configs: []\n');
  const prometheus = await startPrometheus(config);
  const asks = (await documentedMetrics()).map(({ ask = '' }) => ask);
  expect(asks.length).toBeGreaterThan(35);
  for (const ask of asks) expect(await prometheus.query(ask)).toEqual([]);
});
