import { once } from 'node:events';
import {
  CommandError,
  UsageError,
  createCommand,
  EXIT,
  printJson,
  runCommand,
  integer,
} from '../src/terminal/command.ts';
import { say } from '../src/terminal/progress.ts';
import { planFaults } from './faults.ts';
import { checks } from './judge.ts';
import { pairs, PAIRS_SECONDS } from './pairs/pairs.ts';
import { describeFault, renderReport, renderTroubles, judgeRun, keepFacts } from './report.ts';
import { run } from './run.ts';
import { planWorkload } from './workload.ts';

interface Flags {
  readonly seconds?: number;
  readonly seed: number;
  readonly notifications?: number;
  readonly pairs?: true;
  readonly earlier?: true;
  readonly cluster?: true;
  readonly waitReplicas?: number;
  readonly plan?: true;
  readonly keep?: string;
  readonly json?: true;
}

type Timed = Flags & { readonly seconds: number };

const SECONDS = 60;
/** In the default of a minute. */
const NOTIFICATIONS_A_SECOND = 20_000 / 60;

/** `npm run chaos`: injects faults, and checks the guarantees by what the providers received. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand(
    'chaos',
    'Injects faults into workers, Redis and providers by a seeded plan during delivery, then checks every notification.',
  )
    .option(
      '--seconds <n>',
      `how long the faults go on; the queue is drained after it (default: ${SECONDS}, with --pairs ${PAIRS_SECONDS})`,
      integer('--seconds', 10, 3_600),
    )
    .option('--seed <n>', 'decides the faults and the notifications', integer('--seed', 0, 2 ** 31), 1)
    .option('--notifications <n>', 'how many (default: 20,000 a minute)', integer('--notifications', 100, 1_000_000))
    .option(
      '--pairs',
      'few recipients, every feature and every act of operators together; checks that nothing vanishes',
    )
    .option(
      '--earlier',
      'with --pairs: with a worker of the earlier version for a while, which breaks some rules by itself',
    )
    .option('--cluster', 'on a Redis Cluster: masters are killed, so that replicas take over, and hash slots move')
    .option(
      '--wait-replicas <n>',
      "with --cluster: the workers' REDIS_WAIT_REPLICAS, 0 or 1 (default: 0)",
      integer('--wait-replicas', 0, 1),
    )
    .option('--plan', 'print the faults, and do nothing')
    .option('--keep <folder>', "keep the workers' output and all results there")
    .option('--json', 'one JSON object as the last line of standard output')
    .action(async (flags: Flags) => {
      if (flags.waitReplicas !== undefined && flags.cluster !== true) {
        throw new UsageError('--wait-replicas: expected --cluster beside it, since a single Redis has no replicas');
      }
      if (flags.pairs === true) {
        if (flags.cluster === true || flags.notifications !== undefined) {
          throw new UsageError('--pairs: expected neither --cluster nor --notifications beside it');
        }
        process.exitCode = await pairs({ ...flags, seconds: flags.seconds ?? PAIRS_SECONDS });
        return;
      }
      const timed = { ...flags, seconds: flags.seconds ?? SECONDS };
      process.exitCode = flags.plan === true ? printPlan(timed) : await chaos(timed);
    });
  await runCommand(command, argv);
}

function printPlan({ seed, seconds, json, cluster }: Timed): number {
  const plan = planFaults(seed, seconds, cluster);
  if (json === true) printJson({ seed, seconds, faults: plan });
  else process.stdout.write(`${plan.map(describeFault).join('\n')}\n`);
  return EXIT.ok;
}

async function chaos({ seed, seconds, keep, json, ...flags }: Timed): Promise<number> {
  const { notifications = Math.round(seconds * NOTIFICATIONS_A_SECOND) } = flags;
  const cluster = flags.cluster === true ? { waitReplicas: flags.waitReplicas ?? 0 } : undefined;
  const marker = crypto.randomUUID().replaceAll('-', '').slice(-12);
  const interrupted = new AbortController();
  void Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]).then(() => {
    interrupted.abort(new CommandError('interrupted'));
  });
  const facts = await run({
    seed,
    cluster,
    plan: planFaults(seed, seconds, flags.cluster),
    workload: (pushService) => planWorkload({ seed, seconds, notifications, marker, pushService }),
    marker,
    // A cluster has six servers more on the same processors.
    drainTimeoutMs: (cluster === undefined ? 120_000 : 360_000) + seconds * 1_000,
    keep,
    say,
    signal: interrupted.signal,
  }).catch((error: unknown) => {
    interrupted.signal.throwIfAborted(); // its own message is better
    throw error;
  });
  if (keep !== undefined) await keepFacts(keep, facts);
  const { result, troubles } = judgeRun(facts, { seed, seconds, cluster });
  const verdict = checks(result);
  const ok = verdict.every((check) => check.ok);
  if (json !== true) process.stdout.write(`${renderReport(result, verdict)}\n`);
  if (!ok) {
    for (const line of renderTroubles(troubles)) say(line);
    const { longestStallMs } = result;
    if (longestStallMs > 0) say(`note: this machine stood still for up to ${longestStallMs} ms meanwhile`);
  }
  if (json === true) printJson(result);
  return ok ? EXIT.ok : EXIT.failure;
}

if (import.meta.main) await main(process.argv.slice(2));
