import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CommandError, EXIT, printJson } from '../../src/terminal/command.ts';
import { say } from '../../src/terminal/progress.ts';
import { describe, planPairs, type PairsPlan } from './acts.ts';
import type { PairsFacts } from './facts.ts';
import { emptiness, judgePairs, type PairsResult } from './judge.ts';
import { runPairs } from './run.ts';
import { ASIDE, planItems, recipientIdsOf, type Item } from './workload.ts';

/** How long the acts and faults go on, where nothing is said. The whole run takes about a minute then. */
export const PAIRS_SECONDS = 25;
const DRAIN_MS = 30_000;

interface Flags {
  readonly seed: number;
  readonly seconds: number;
  readonly earlier?: true | undefined;
  readonly plan?: true | undefined;
  readonly keep?: string | undefined;
  readonly json?: true | undefined;
}

/** `npm run chaos -- --pairs`: one random run. Answers the exit code. */
export async function pairs({ seed, seconds, earlier, plan: isPlan, keep, json }: Flags): Promise<number> {
  const marker = crypto.randomUUID().replaceAll('-', '').slice(-12);
  const items = planItems({ seed, seconds, marker });
  const plan = planPairs({ seed, seconds, recipientIds: recipientIdsOf(items), aside: ASIDE, hasEarlier: earlier });
  if (isPlan === true) return printPlan(plan, items, json);
  const interrupted = new AbortController();
  void Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]).then(() => {
    interrupted.abort(new CommandError('interrupted'));
  });
  const { signal } = interrupted;
  const facts = await runPairs({ seed, plan, items, marker, drainTimeoutMs: DRAIN_MS, keep, say, signal }).catch(
    (error: unknown) => {
      signal.throwIfAborted(); // its own message is better
      throw error;
    },
  );
  if (keep !== undefined) await writeFile(join(keep, 'facts.json'), textOf(facts));
  const result = judgePairs(facts, { seed, seconds });
  const others = emptiness(result);
  const isClean = result.faults.length === 0 && others.length === 0;
  for (const line of [...faultLines(result), ...others]) say(line);
  if (json === true) printJson(result);
  else process.stdout.write(`${report(result, isClean)}\n`);
  return isClean ? EXIT.ok : EXIT.failure;
}

function printPlan({ workers, acts, faults }: PairsPlan, items: readonly Item[], json: true | undefined): number {
  const all = [...acts, ...faults].toSorted((a, b) => a.atMs - b.atMs);
  if (json === true) printJson({ workers, notifications: items.length, acts, faults });
  else process.stdout.write(`${workers} workers, ${items.length} notifications\n${all.map(describe).join('\n')}\n`);
  return EXIT.ok;
}

/** With sets as lists. */
function textOf(facts: PairsFacts): string {
  return JSON.stringify(facts, (_name, value: unknown) =>
    value instanceof Set ? [...(value as Set<unknown>)] : value,
  );
}

function faultLines({ faults }: PairsResult): string[] {
  return faults.flatMap(({ rule, text, story }) => [`rule ${rule}: ${text}`, ...story.map((line) => `    ${line}`)]);
}

function report(result: PairsResult, isClean: boolean): string {
  const { notifications, ends, digests, acts, kills, freezes, excused, faults, drainMs, tookMs } = result;
  return [
    `\n${notifications} notifications: ${counted(ends)}; ${digests} alerts of digests.`,
    `Acts: ${counted(acts)}. ${kills} workers killed, ${freezes} frozen.`,
    `Excused: ${counted(excused)}.`,
    `Drained within ${seconds(drainMs)}, all within ${seconds(tookMs)}.`,
    isClean ? 'ok    nothing was lost, doubled or left' : `FAIL  ${faults.length} faults`,
  ].join('\n');
}

function counted(counts: Readonly<Record<string, number>>): string {
  const some = Object.entries(counts).toSorted(([, a], [, b]) => b - a);
  return some.length === 0 ? 'none' : some.map(([name, count]) => `${count} ${name}`).join(', ');
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
