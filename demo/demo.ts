import { constants } from 'node:fs';
import { writeFile, access, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { arrivalInstant } from '../sandbox/journal.ts';
import { idealMakespan } from '../sandbox/judge.ts';
import { openRedis } from '../sandbox/redis/embedded-redis.ts';
import type { Policy } from '../src/domain/limits.ts';
import { paceOf } from '../src/limiter/pace.ts';
import { createCommand, createStopSignals, EXIT, printJson, runCommand, UsageError } from '../src/terminal/command.ts';
import { columnsOf } from '../src/terminal/text.ts';
import { arrivalsOf, countResult, refusalsOf } from './counts.ts';
import { correctConfiguration, EXAMPLES, NIGHT, readMorning, scriptTroubles, TRIP, quietNow } from './morning.ts';
import { longestMs, startProviders } from './providers-process.ts';
import { openDemoQueue, replayCorrected, watch } from './queue.ts';
import { startReplicas } from './replicas.ts';
import { renderReport } from './report.ts';
import { renderDeadLetters, renderEnding, renderTimeline } from './show.ts';
import { checkDeadLetters, checkReplayed, checkWaiting, machineChecks, promises } from './verdict.ts';

const WORKERS = 4;
/** Fast enough that 59 alerts to one teacher end within half a minute; the same kind of policy as a school's. */
const POLICY: Policy = {
  rules: [
    { max: 10, perMs: 3_000 },
    { max: 20, perMs: 8_000 },
  ],
  minGapMs: 250,
};
/** For background pushes: short enough that those over the limit come within the demo. */
const BACKGROUND_POLICY: Policy = { rules: [{ max: 3, perMs: 8_000 }], minGapMs: 0 };
/** A request that would leave later than this after its slot asks for another one (src/delivery/slot.ts). */
const SEND_LATE_MS = 25;
const HELP = `
docs/demo.md explains what it shows, docs/commands.md the fields of --json.`;
const ENVIRONMENT = {
  LIMIT_RULES: '10/3s,20/8s',
  LIMIT_MIN_GAP: '250ms',
  LIMIT_BACKGROUND_RULES: '3/8s',
  LIMITS_FILE: fileURLToPath(new URL('school-morning.limits.json', EXAMPLES)),
  LOG_LEVEL: 'info',
};

/** `pushpacer demo`: the whole main job on real parts, checked by what the providers received. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand(
    'demo',
    'A morning at a school: delivers it with four worker processes, and checks every promise by what the providers received.',
  )
    .option('--json', 'one JSON object as the last line of standard output')
    .option(
      '--report <file>',
      'the timelines, the verdict and the dead letters as an HTML page, which needs nothing else',
    )
    .addHelpText('after', HELP)
    .action(async ({ json, report }: { json?: true; report?: string }) => {
      if (report !== undefined) await checkOutputFile('--report', report);
      const interrupted = whenInterrupted();
      process.exitCode = await demo({ json: json === true, report, interrupted });
      if (process.exitCode > EXIT.usage) process.exit(); // what was begun meanwhile would keep this process alive
    });
  await runCommand(command, argv);
}

interface DemoOptions {
  readonly json?: boolean;
  readonly report?: string | undefined;
  /** Only for tests of the verdict: other limits for the workers than those by which they are judged. */
  readonly limits?: Readonly<Record<string, string>>;
  /** Ends the demo before its end: what it wrote is removed. Resolves to its exit code then. */
  readonly interrupted?: Promise<number>;
}

/** Resolves to the exit code when this process is interrupted for the first time. A later signal ends it at once. */
function whenInterrupted(): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>();
  const signals = createStopSignals();
  for (const [name, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const) {
    process.on(name, () => {
      if (signals() === 'later') process.exit(code);
      resolve(code);
    });
  }
  return promise;
}

/** The exit code. */
export async function demo({ interrupted, ...options }: DemoOptions): Promise<number> {
  await using cleanup = new AsyncDisposableStack();
  const done = run(options, cleanup);
  return await (interrupted === undefined ? done : Promise.race([done, interrupted]));
}

async function run({ json = false, report, limits = {} }: DemoOptions, cleanup: AsyncDisposableStack): Promise<number> {
  const say = (line: string): void => void process.stderr.write(`${line}\n`);
  const show = (text: string): void => {
    if (!json) process.stdout.write(`${text}\n`);
  };
  const redis = cleanup.adopt(await openRedis({ url: process.env['REDIS_URL'], say }), (it) => it.close());
  const providers = cleanup.adopt(await startProviders(), (it) => it.close());
  const morning = readMorning(providers.env['WEBPUSH_ORIGINS']);
  await scriptTroubles(providers, morning.troubles);
  const queue = cleanup.adopt(openDemoQueue(redis.url, POLICY), (it) => it.close());

  say(`starting ${WORKERS} worker processes`);
  const env = { ...providers.env, ...ENVIRONMENT, ...limits, REDIS_URL: redis.url, QUEUE_PREFIX: queue.prefix };
  const replicas = await startReplicas({ count: WORKERS, env });
  cleanup.defer(async () => {
    await replicas.stop();
  });

  const ids = [...morning.valid, ...morning.malformed].map(({ id }) => id);
  const alerting = morning.valid.filter(({ pushType }) => pushType !== 'background');
  const longest = longestSchedule(alerting.map(({ recipientId }) => recipientId));
  say(`enqueuing ${ids.length} notifications; the busiest teacher's take ${(longest / 1000).toFixed(1)} s at best`);
  const enqueuedAt = arrivalInstant();
  await queue.quiet(NIGHT, quietNow(Date.now()));
  await queue.enqueue(morning);
  const canceled = await queue.cancel(TRIP);
  const enqueuingMs = arrivalInstant() - enqueuedAt;
  await watch(queue, ids.length);

  const entries = replicas.delays.counted(providers.entries, ({ data }) => data['ref'] ?? '');
  const arrivals = arrivalsOf(entries, morning.recipientOf);
  const refusals = refusalsOf(entries, morning.recipientOf);
  const endings = await queue.endings();
  const letters = await queue.deadLetters();
  const policies = { alerts: POLICY, pushes: BACKGROUND_POLICY };
  const workers = {
    ...(await replicas.lateness()),
    lateToleranceMs: paceOf(POLICY).toleranceMs,
    standstills: replicas.delays.standstillsMs(enqueuedAt).filter((ms) => ms > SEND_LATE_MS).length,
    workers: replicas.alive(),
  };
  const result = countResult(ids, arrivals, endings, policies, workers);
  show(renderTimeline(arrivals.alerts, POLICY, columnsOf()));
  show(`\n${renderDeadLetters(letters, columnsOf())}\n`);
  await correctConfiguration(providers, morning.troubles);
  const replayed = await replayCorrected(queue, providers.entries);
  const { recipientOf, valid } = morning;
  const waited = checkWaiting({ entries, recipientOf, valid, counts: result, canceled });
  const kept = [...promises(result), ...waited, checkDeadLetters(letters, morning), checkReplayed(replayed)];
  const machine = machineChecks(result, POLICY);
  const verdict = { result, policy: POLICY, promises: kept, machine, longestStallMs: longestMs(providers.stalls) };
  show(renderEnding(verdict));
  if (report !== undefined) {
    const expired = endings.completed.filter(({ outcome }) => outcome === 'expired').map(({ id }) => id);
    const seen = { arrivals: arrivals.alerts, refusals, morning: { ...morning, valid: alerting }, letters, expired };
    await writeFile(report, renderReport({ ...verdict, ...seen, enqueuedAt, enqueuingMs }));
    say(`report: ${report}`);
  }
  if (json) {
    const { longestStallMs } = verdict;
    printJson({ ...result, replayed: replayed === undefined ? 0 : 1, longestStallMs, deadLetters: letters });
  }
  return [...kept, ...machine].every(({ ok }) => ok) ? EXIT.ok : EXIT.failure;
}

function longestSchedule(recipients: readonly string[]): number {
  const counts = [...Map.groupBy(recipients, (recipientId) => recipientId).values()].map(({ length }) => length);
  return idealMakespan(Math.max(...counts), POLICY);
}

/**
 * Makes sure that a file can be written, before the work whose result it will have.
 *
 * @throws UsageError if the path is a folder, its folder does not exist, or one of them may not be written
 */
export async function checkOutputFile(flag: string, path: string): Promise<void> {
  const fail = (found: string): never => {
    throw new UsageError(`${flag}: expected a file that can be written, found ${JSON.stringify(path)}: ${found}`);
  };
  const kind = path === '' ? undefined : await kindOf(path);
  if (path === '') fail('an empty name');
  if (kind === 'folder') fail('a folder');
  const folder = dirname(resolve(path));
  if ((await kindOf(folder)) !== 'folder') fail(`the folder ${JSON.stringify(folder)} does not exist`);
  const target = kind === undefined ? folder : path;
  if (!(await mayBeWritten(target))) fail(`this user may not write to ${JSON.stringify(target)}`);
}

async function kindOf(path: string): Promise<'folder' | 'file' | undefined> {
  const found = await stat(path).catch(() => undefined);
  if (found === undefined) return undefined;
  return found.isDirectory() ? 'folder' : 'file';
}

async function mayBeWritten(path: string): Promise<boolean> {
  return access(path, constants.W_OK).then(
    () => true,
    () => false,
  );
}

if (import.meta.main) await main(process.argv.slice(2));
