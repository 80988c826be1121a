import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { targetOf } from '../../src/notification/device.ts';
import { DEAD_LETTER_REASONS } from '../../src/notification/outcome.ts';
import { createLog, createSparing } from '../../src/observe/log.ts';
import { createMetrics, type Metrics } from '../../src/observe/metrics.ts';
import { runProgram, temporaryFolder } from '../support/program.ts';
import { makeDevice, makeNotification } from '../support/push.ts';

function logged() {
  const lines: string[] = [];
  return { lines, log: createLog('info', { write: (line) => void lines.push(line) }) };
}

it('redacts every field of a device but its platform', () => {
  const { log, lines } = logged();
  const [phone, browser] = [makeDevice(), makeDevice('webpush')];
  const android = { platform: 'fcm', fid: 'cQx3v8fZTn6tE1mKp0aB9d' };
  log.info({ ...browser, device: phone, devices: [browser, phone, android] }, 'x');
  log.info({ device: android, fid: android.fid }, 'y');
  expect(lines.join()).not.toContain(android.fid);
  expect(lines[0]).toContain('"platform":"webpush"');
  expect(lines[0]).toContain('"token":"[redacted]"');
  const { endpoint, keys } = browser;
  for (const secret of [phone.token, endpoint, keys.auth, keys.p256dh]) expect(lines[0]).not.toContain(secret);
});

it('escapes what a terminal would obey, and says the same', () => {
  const { log, lines } = logged();
  const recipientId = '\u001b[2J\u009b31m\u202ered\u2028';
  log.info({ recipientId }, 'x');
  expect(lines[0]).toContain('\\u009b31m\\u202ered\\u2028');
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ recipientId });
});

it('writes every line to standard output, in order, also those just before the process ends', async () => {
  const source = fileURLToPath(new URL('../../src/observe/log.ts', import.meta.url));
  const program = `
    import { createLog } from ${JSON.stringify(source)};
    const log = createLog('info');
    for (let n = 0; n < 2_000; n++) log.info({ n }, 'a line');
    await new Promise((resolve) => setTimeout(resolve, 150)); // the batch is written by its timer
    for (let n = 2_000; n < 3_000; n++) log.info({ n }, 'a line');
    log.fatal({ n: 3_000 }, 'the last line');
    process.exit(0);
  `;
  const output = await runProgram(process.execPath, ['--input-type=module', '--eval', program], process.cwd());
  const numbers = output
    .trimEnd()
    .split('\n')
    .map((line) => (JSON.parse(line) as { n: number }).n);
  expect(numbers).toEqual(Array.from({ length: 3_001 }, (_, n) => n));
});

it('goes on when a full disk has room again', async () => {
  const source = fileURLToPath(new URL('../../src/observe/log.ts', import.meta.url));
  const file = join(await temporaryFolder(), 'log');
  // A closed descriptor is the next one to be opened, so standard output becomes the device that is always full, and then a file.
  const program = `
    import { closeSync, openSync } from 'node:fs';
    import { createLog } from ${JSON.stringify(source)};
    const log = createLog('info');
    closeSync(1);
    openSync('/dev/full', 'w');
    for (let n = 0; n < 2_000; n++) log.info({ n }, 'a line');
    log.fatal('the disk is full');
    closeSync(1);
    openSync(${JSON.stringify(file)}, 'a');
    for (const n of [1, 2, 3]) log.info({ n }, 'there is room again');
    log.fatal({ n: 4 }, 'there is room again');
    log.info({ n: 5 }, 'there is room again');
  `;
  await runProgram(process.execPath, ['--input-type=module', '--eval', program], process.cwd());
  const lines = (await readFile(file, 'utf8'))
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as { n: number; msg: string });
  expect(lines.map(({ n, msg }) => `${n} ${msg}`)).toEqual([1, 2, 3, 4, 5].map((n) => `${n} there is room again`));
});

it('logs each trouble once in a while, and then how often it was met since', () => {
  let time = 0;
  const sparing = createSparing(1_000, () => time);
  expect(sparing('OOM')).toBe(0);
  for (let round = 0; round < 5; round++) expect(sparing('OOM')).toBeUndefined();
  expect(sparing('READONLY')).toBe(0);
  time = 999;
  expect(sparing('OOM')).toBeUndefined();
  time = 1_000;
  expect(sparing('OOM')).toBe(6);
  time = 5_000;
  expect([sparing('READONLY'), sparing('OOM')]).toEqual([0, 0]);
});

function open(): Metrics {
  return createMetrics({
    lateAfterMs: 0,
    breakersOpenMs: () => [],
    unreachableMs: () => [
      ['apns', 90_000],
      ['webpush@push.example.com', 0],
    ],
  });
}

const read = ({ registry }: Metrics): Promise<string> => registry.metrics();
const series = async (metrics: Metrics, pattern: RegExp): Promise<string[]> =>
  (await read(metrics))
    .split('\n')
    .filter((line) => line.startsWith('pushpacer_outcomes_total{') && pattern.test(line));

it('has metrics of Node as promtool takes them, both versions, and how long a provider could not be reached', async () => {
  const page = await read(open());
  const { version } = (await import('../../package.json', { with: { type: 'json' } })).default;
  expect(page).toContain('# TYPE nodejs_active_resources gauge'); // the twin
  expect(page).toContain(`pushpacer_build_info{version="${version}",node="${process.versions.node}"} 1`);
  expect(page).toContain('pushpacer_provider_unreachable_seconds{platform="apns"} 90');
  expect(page).toContain('pushpacer_provider_unreachable_seconds{platform="webpush",server="push.example.com"} 0');
});

it('every series of an app with credentials begins at 0', async () => {
  const metrics = open();
  metrics.use(['apns', 'fcm', 'apns~teacher', 'fcm~teacher']);
  for (const reason of DEAD_LETTER_REASONS) {
    for (const platform of ['apns', 'fcm', 'apns,fcm']) {
      const labels = `outcome="dead-lettered",reason="${reason}",platform="${platform}"`;
      expect(await read(metrics)).toContain(`pushpacer_outcomes_total{${labels}} 0`);
      expect(await read(metrics)).toContain(`pushpacer_outcomes_total{${labels},app="teacher"} 0`);
    }
  }
  expect(
    await series(metrics, /outcome="delivered",reason="",silenced="true",platform="apns",app="teacher"} 0/),
  ).toHaveLength(1);
  expect(await series(metrics, /app="teacher"/)).toHaveLength(3 * 18);
  expect(await series(metrics, / [1-9]/)).toEqual([]);
});

it('series of several apps, and of apps without credentials, begin at 0', async () => {
  const metrics = open();
  metrics.use(['apns', 'fcm~teacher']);
  expect(await series(metrics, /app="several apps"} 0/)).toHaveLength(3 * 18);
  for (const platform of ['apns', 'fcm', 'apns,fcm']) {
    const labels = `outcome="dead-lettered",reason="rejected",platform="${platform}",app="several apps"`;
    expect(await read(metrics)).toContain(`pushpacer_outcomes_total{${labels}} 0`);
  }
  for (const platform of ['apns', 'fcm', 'webpush']) {
    const labels = `platform="${platform}",app="not configured"`;
    expect(await read(metrics)).toContain(`pushpacer_jobs_without_credentials_total{${labels}} 0`);
  }
  const ofEnvironment = open();
  ofEnvironment.use(['apns', 'fcm']);
  expect(await series(ofEnvironment, /app="several apps"/)).toEqual([]);
});

it('many apps begin with their first notification, so that the page stays short', async () => {
  const metrics = open();
  metrics.use(Array.from({ length: 1_000 }, (_, number) => `apns~app-${number}` as const));
  expect((await series(metrics, /./)).length).toBeLessThan(600);
  const target = { platform: 'apns', app: 'app-999' };
  metrics.passEnded({ kind: 'expired' }, { target });
  expect(await series(metrics, /app="app-999"/)).toEqual([
    'pushpacer_outcomes_total{outcome="expired",reason="",platform="apns",app="app-999"} 1',
  ]);
});

it('counts a notification once, whatever platforms and apps its devices are of', async () => {
  const metrics = open();
  metrics.use(['apns', 'fcm~teacher']);
  const phone = makeDevice();
  const both = makeNotification({ devices: [makeDevice('fcm'), phone] });
  const apps = makeNotification({ devices: [phone, { ...makeDevice('fcm'), app: 'teacher' }] });
  const made = Array.from({ length: 50 }, (_, number) => ({ devices: [{ ...phone, app: `made-up-${number}` }] }));
  for (const data of [both, apps, ...made, { devices: 'none' }, undefined]) {
    metrics.passEnded({ kind: 'dead-letter', reason: 'rejected', message: '' }, { target: targetOf(data) });
  }
  metrics.passEnded({ kind: 'yielded' }, { target: targetOf(both) });
  expect((await series(metrics, / [1-9]/)).toSorted()).toEqual([
    'pushpacer_outcomes_total{outcome="dead-lettered",reason="rejected",platform="apns",app="not configured"} 50',
    'pushpacer_outcomes_total{outcome="dead-lettered",reason="rejected",platform="apns,fcm",app="several apps"} 1',
    'pushpacer_outcomes_total{outcome="dead-lettered",reason="rejected",platform="apns,fcm"} 1',
    'pushpacer_outcomes_total{outcome="dead-lettered",reason="rejected"} 2',
  ]);
});

it('observes how long it took until the first acceptance', async () => {
  const metrics = open();
  const target = { platform: 'apns' };
  metrics.passEnded({ kind: 'delivered' }, { target, waitedMs: 2_000, acceptedMs: 2_000 });
  metrics.passEnded({ kind: 'delivered' }, { target, waitedMs: 9_000 }); // it was accepted before a replay
  const page = await read(metrics);
  expect(page).toContain('pushpacer_enqueue_to_accepted_seconds_sum{platform="apns"} 2');
  expect(page).toContain('pushpacer_enqueue_to_accepted_seconds_count{platform="apns"} 1');
  expect(page).toContain('pushpacer_enqueue_to_accepted_seconds_count{platform="apns,fcm"} 0');
});

it('counts each pass by its result, and how late it was for its slot', async () => {
  const metrics = open();
  expect((await read(metrics)).match(/^pushpacer_passes_total.* 0$/gm)).toHaveLength(12);
  metrics.passEnded({ kind: 'dead-letter', reason: 'rejected', message: '' }, { target: {} });
  metrics.passEnded({ kind: 'yielded' }, { target: {} });
  metrics.passEnded({ kind: 'delivered' }, { target: {}, slotLateMs: 40 });
  const page = await read(metrics);
  for (const result of ['dead-lettered', 'yielded', 'delivered'])
    expect(page).toContain(`pushpacer_passes_total{result="${result}"} 1`);
  expect(page).toContain('pushpacer_slot_lateness_seconds_bucket{le="0.025"} 0');
  expect(page).toContain('pushpacer_slot_lateness_seconds_bucket{le="0.05"} 1');
});
