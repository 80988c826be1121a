import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { expect, test, vi } from 'vitest';
import { ownRedis } from '../../support/own-redis.ts';
import * as monitoring from '../../support/monitoring.ts';
import { promtool, startPrometheus, type TestPrometheus } from '../../support/prometheus.ts';
import { temporaryFolder } from '../../support/program.ts';
import { makeDevice, makeNotification } from '../../support/push.ts';
import { openWorkerBench, type WorkerBench } from '../../support/worker.ts';

const ROOT = process.cwd();
/** Until a worker has sent all, and a scrape has seen it. */
const WITHIN = { timeout: 60_000, interval: 250 };

test('promtool finds no fault in the rules and the example configuration', async () => {
  expect(await promtool(['check', 'config', '--lint-fatal', monitoring.SCRAPE_CONFIG], ROOT)).toContain('SUCCESS');
  const { length } = await monitoring.readAlerts();
  expect(await promtool(['check', 'rules', '--lint-fatal', monitoring.RULES], ROOT)).toContain(
    `SUCCESS: ${length} rules`,
  );
});

test('each alert fires when it should, and none on a quiet night, in a broadcast or a rolling restart', async () => {
  expect(await promtool(['test', 'rules', monitoring.RULE_TESTS], ROOT)).toContain('SUCCESS');
}, 300_000);

test('every query of the dashboard and of the alerts finds what a worker serves', async () => {
  const bench = await openWorkerBench();
  const limiterRedis = await ownRedis({ extraArgs: ['--maxmemory', '256mb', '--maxmemory-policy', 'noeviction'] });
  const env = {
    LIMITER_REDIS_URL: limiterRedis.url,
    FCM_QUOTA: '600000/1m',
    LIMIT_MIN_GAP: '500ms',
    BACKOFF_BASE: '100ms',
  };
  const { url } = await bench.startWorker(env);
  const prometheus = await startPrometheus(await configFor(new URL(url).host));
  // Twice: a rate needs a series that was there before.
  for (const round of [1, 2]) {
    await sendAll(bench);
    await vi.waitFor(async () => {
      expect(await valueOf(prometheus, 'sum(pushpacer_outcomes_total{outcome="delivered"})')).toBe(5 * round);
      expect(await valueOf(prometheus, 'sum(pushpacer_outcomes_total{reason="unregistered"})')).toBe(round);
      expect(await valueOf(prometheus, 'sum(pushpacer_passes_total{result="requeued"})')).toBeGreaterThanOrEqual(round);
      expect(await valueOf(prometheus, 'sum(pushpacer_passes_total{result="retried"})')).toBeGreaterThanOrEqual(round);
    }, WITHIN);
  }
  const page = await (await fetch(`${url}/metrics`)).text();
  const served = new Set([...page.matchAll(/^# TYPE (\S+)/gm)].map(([, name = '']) => name));

  const { panels, annotations } = await monitoring.readDashboard();
  const queries = panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }) => ({ of: title, expr: monitoring.withVariables(expr) })),
  );
  expect(queries.length).toBeGreaterThan(40);
  const alerts = (await monitoring.readAlerts()).map(({ alert, expr }) => ({ of: alert, expr }));
  const marks = annotations.list.flatMap(({ expr }) => (expr === undefined ? [] : [{ of: 'annotations', expr }]));

  const all = [...queries, ...alerts, ...marks];
  const names = new Set(all.flatMap(({ expr }) => monitoring.namesIn(expr)));
  expect(
    [...names].filter((name) => !served.has(name)),
    'names that no worker serves',
  ).toEqual([]);

  // Again, should a scrape have failed just now: the machine may be busy.
  await vi.waitFor(async () => {
    expect(await selectNothing(prometheus, all)).toEqual([]);
    expect(await withoutNumber(prometheus, queries)).toEqual([]);
  }, WITHIN);
  for (const { of, expr } of [...alerts, ...marks]) expect([of, await prometheus.query(expr)]).toEqual([of, []]);
  expect(await rulesOf(prometheus)).toEqual(alerts.map(({ of }) => ({ name: of, health: 'ok', state: 'inactive' })));
}, 180_000);

/** The example configuration, for one worker at this address and with a scrape every 2 s. Its rules lie beside it. */
async function configFor(worker: string): Promise<string> {
  const folder = await temporaryFolder();
  const text = await readFile(monitoring.SCRAPE_CONFIG, 'utf8');
  const targets = `static_configs: [{ targets: ['${worker}'] }]\n`;
  const changed = text
    .replace(/dns_sd_configs:\n(?: {6}.*\n)+/, targets)
    .replaceAll(/_interval: 15s/g, '_interval: 2s')
    .replace('scrape_timeout: 10s', 'scrape_timeout: 2s');
  expect(changed).toContain(targets);
  const file = join(folder, 'prometheus.yml');
  await writeFile(file, changed);
  await copyFile(monitoring.RULES, join(folder, basename(monitoring.RULES)));
  return file;
}

interface Asked {
  /** The title of a panel, the name of an alert. */
  readonly of: string;
  readonly expr: string;
}

/** The selectors that select no series. */
async function selectNothing(prometheus: TestPrometheus, asked: readonly Asked[]): Promise<string[]> {
  const selectors = asked.flatMap(({ of, expr }) => monitoring.selectorsOf(expr).map((selector) => ({ of, selector })));
  const found: string[] = [];
  for (const { of, selector } of selectors) {
    if ((await prometheus.query(selector)).length === 0) found.push(`${of}: ${selector}`);
  }
  return found;
}

/** The queries that answer with no number. */
async function withoutNumber(prometheus: TestPrometheus, asked: readonly Asked[]): Promise<string[]> {
  const found: string[] = [];
  for (const { of, expr } of asked) {
    const series = await prometheus.query(expr);
    if (series.every(({ value }) => Number.isNaN(value))) found.push(`${of}: ${expr}`);
  }
  return found;
}

/** Five that are delivered, one of them after a requeue and one after a retry, and one to a token that is gone. */
async function sendAll({ queue, sandbox }: WorkerBench): Promise<void> {
  const [gone, busy] = [makeDevice('apns'), makeDevice('fcm')];
  sandbox.setAnswers([
    { platform: 'apns', token: gone.token, status: 410 },
    { platform: 'fcm', token: busy.token, status: 503, times: 1 },
  ]);
  const recipientId = `parent-${crypto.randomUUID()}`;
  const notifications = [
    makeNotification({ recipientId }),
    makeNotification({ recipientId }),
    ...[[busy], [makeDevice('fcm')], [makeDevice('apns')], [gone]].map((devices) =>
      makeNotification({ recipientId: `parent-${crypto.randomUUID()}`, devices }),
    ),
  ];
  await queue.addBulk(notifications.map((data) => ({ name: 'push', data, opts: { jobId: data.id, priority: 10 } })));
}

async function valueOf(prometheus: TestPrometheus, expr: string): Promise<number | undefined> {
  const [first] = await prometheus.query(expr);
  return first?.value;
}

interface LoadedRule {
  readonly name: string;
  readonly health: string;
  readonly state: string;
}

/** As Prometheus has them: it evaluates each of them every 2 s. */
async function rulesOf({ url }: TestPrometheus): Promise<LoadedRule[]> {
  const answer = (await (await fetch(`${url}/api/v1/rules`)).json()) as {
    readonly data: { readonly groups: readonly { readonly rules: readonly LoadedRule[] }[] };
  };
  return answer.data.groups.flatMap(({ rules }) => rules.map(({ name, health, state }) => ({ name, health, state })));
}
