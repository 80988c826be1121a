import { once } from 'node:events';
import { countBalance } from './chaos/balance.ts';
import { describeFault } from './chaos/describe.ts';
import { countDuplicates } from './chaos/duplicates.ts';
import { POLICIES } from './chaos/environment.ts';
import { planFaults } from './chaos/faults.ts';
import { keepFacts } from './chaos/keep.ts';
import { judgePacing } from './chaos/pacing.ts';
import { run, type Facts } from './chaos/run.ts';
import { checks, type ChaosResult } from './chaos/verdict.ts';
import { planWorkload } from './chaos/workload.ts';
import { CommandError, createCommand, EXIT, printJson, runCommand, UsageError } from './support/command.ts';

interface Flags {
  readonly seconds: number;
  readonly seed: number;
  readonly notifications?: number;
  readonly plan?: true;
  readonly keep?: string;
  readonly json?: true;
}

/** In the default of a minute. */
const NOTIFICATIONS_A_SECOND = 20_000 / 60;

/** `npm run chaos`: faults on every side, and whether the guarantees hold, judged by what the providers received. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand(
    'chaos',
    'Strikes workers, Redis and providers by a seeded plan while notifications are delivered, then balances the books.',
  )
    .option(
      '--seconds <n>',
      'how long the faults go on; the queue is drained after it',
      integer('--seconds', 10, 3_600),
      60,
    )
    .option('--seed <n>', 'decides the faults and the notifications', integer('--seed', 0, 2 ** 31), 1)
    .option('--notifications <n>', 'how many (default: 20,000 a minute)', integer('--notifications', 100, 1_000_000))
    .option('--plan', 'print the faults, and do nothing')
    .option('--keep <folder>', "keep the workers' output and all that is judged by there")
    .option('--json', 'one JSON object as the last line of standard output')
    .action(async (flags: Flags) => {
      process.exitCode = flags.plan === true ? printPlan(flags) : await chaos(flags);
    });
  await runCommand(command, argv);
}

function printPlan({ seed, seconds, json }: Flags): number {
  const plan = planFaults(seed, seconds);
  if (json === true) printJson(plan);
  else process.stdout.write(`${plan.map(describeFault).join('\n')}\n`);
  return EXIT.ok;
}

async function chaos({ seed, seconds, keep, json, ...flags }: Flags): Promise<number> {
  const say = (line: string): void => void process.stderr.write(`${line}\n`);
  const { notifications = Math.round(seconds * NOTIFICATIONS_A_SECOND) } = flags;
  const marker = crypto.randomUUID().replaceAll('-', '').slice(-12);
  const interrupted = new AbortController();
  void Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]).then(() => {
    interrupted.abort(new CommandError('interrupted'));
  });
  const facts = await run({
    seed,
    plan: planFaults(seed, seconds),
    workload: planWorkload({ seed, seconds, notifications, marker }),
    marker,
    drainTimeoutMs: 120_000 + seconds * 1_000,
    keep,
    say,
    signal: interrupted.signal,
  }).catch((error: unknown) => {
    interrupted.signal.throwIfAborted(); // told in its own words
    throw error;
  });
  if (keep !== undefined) await keepFacts(keep, facts);
  const { result, details } = judge(facts, seed, seconds);
  const verdict = checks(result);
  const ok = verdict.every((check) => check.ok);
  if (json !== true) process.stdout.write(`${report(result, verdict)}\n`);
  if (!ok) {
    for (const line of details) say(line);
    if (result.longestStallMs > 0)
      say(`note: this machine stood still for up to ${result.longestStallMs} ms meanwhile`);
  }
  if (json === true) printJson(result);
  return ok ? EXIT.ok : EXIT.failure;
}

function judge(facts: Facts, seed: number, seconds: number): { result: ChaosResult; details: string[] } {
  const { enqueued, entries, ends, struck, leaks, left } = facts;
  const { suspects, ...balance } = countBalance(enqueued, entries, ends);
  const { unexplained, explainedBy, ...duplicates } = countDuplicates({ enqueued, entries, ends, ...struck });
  const { bursts, ...pacing } = judgePacing(enqueued, entries, POLICIES);
  const { counts } = struck;
  const result: ChaosResult = {
    ...balance,
    ...pacing,
    ...duplicates,
    duplicatesBy: explainedBy,
    secretsLeaked: leaks.length,
    processesLeft: left.length,
    crashes: facts.crashes,
    requeues: ends.completed.reduce((sum, { progress }) => sum + progress.requeues, 0),
    kills: counts['kill-worker'],
    stops: counts['stop-worker'],
    restarts: counts['restart-worker'],
    redisRestarts: counts['kill-redis'],
    redisPauses: counts['pause-redis'],
    redisCuts: counts['cut-clients'],
    refusals: entries.filter(({ status }) => status !== 200).length,
    drainMs: facts.drainMs,
    longestStallMs: Math.round(Math.max(0, ...facts.stalls)),
    seed,
    seconds,
  };
  const details = [
    ...some('neither ended nor queued as it should', suspects),
    ...some('a burst', bursts),
    ...some('a duplicate without a reason', unexplained),
    ...some(
      'a secret',
      leaks.map(({ where, name, times }) => `${name} in ${where}, ${times} times`),
    ),
    ...some('still queued', ends.queued),
    ...some('still running', left.map(String)),
  ];
  return { result, details };
}

const MOST_TOLD = 20;

function some(what: string, found: readonly string[]): string[] {
  const told = found.slice(0, MOST_TOLD).map((one) => `${what}: ${one}`);
  return found.length > MOST_TOLD ? [...told, `${what}: ${found.length - MOST_TOLD} more`] : told;
}

function report(result: ChaosResult, verdict: ReturnType<typeof checks>): string {
  const { notifications, delivered, deadLettered, expired, dropped, duplicatesBy } = result;
  const reasons = Object.entries(result.deadLetters).map(([reason, count]) => `${count} ${reason}`);
  const excuses = Object.entries(duplicatesBy).map(([excuse, count]) => `${count} ${excuse}`);
  return [
    `\n${notifications} notifications: ${delivered} delivered, ${deadLettered} dead letters, ${expired} expired, ${dropped} dropped.`,
    `Dead letters: ${reasons.join(', ')}.`,
    `Duplicates by what excuses them: ${excuses.join(', ')}.`,
    `${result.requeues} requeues; least gap ${result.minGapMs} ms; drained within ${(result.drainMs / 1_000).toFixed(1)} s.`,
    ...verdict.map(({ what, found, ok }) => `${ok ? 'ok  ' : 'FAIL'}  ${what}: ${found}`),
  ].join('\n');
}

function integer(flag: string, least: number, most: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,10}$/.test(text) ? Number(text) : NaN;
    if (value >= least && value <= most) return value;
    throw new UsageError(`${flag}: expected an integer from ${least} to ${most}, found ${JSON.stringify(text)}`);
  };
}

if (import.meta.main) await main(process.argv.slice(2));
