import { once } from 'node:events';
import type { DeadLetterReason } from '../../src/domain/outcome.ts';
import { breakdown, deadLetters } from './taking.ts';
import { inOrder, type Desk } from './desk.ts';
import { filterOf, type FilterFlags } from './flags.ts';
import { factsOf, type Facts } from './facts.ts';
import { columnsOf, dim } from '../support/terminal.ts';
import { renderTable } from './table.ts';

export interface ListFlags extends FilterFlags {
  readonly json?: true;
}

/** How many are listed without `--limit`. */
const TOLD = 50;

/** Lists the dead letters that match the flags, the newest last, and counts them by reason. */
export async function listDeadLetters(desk: Desk, flags: ListFlags): Promise<void> {
  const total = await desk.count();
  const byReason: Partial<Record<DeadLetterReason, number>> = {};
  let matched = 0;
  async function* counted(): AsyncGenerator<Facts, void, undefined> {
    for await (const stored of inOrder(desk, filterOf(flags))) {
      const { reason } = stored.letter;
      byReason[reason] = (byReason[reason] ?? 0) + 1;
      matched++;
      yield factsOf(stored);
    }
  }

  if (flags.json && flags.limit === undefined) {
    await writeJsonArray(counted());
    const counts = JSON.stringify({ total, matched, byReason });
    process.stdout.write(`,${counts.slice(1)}\n`);
    return;
  }
  const newest = await last(counted(), flags.limit ?? TOLD);
  if (flags.json) {
    process.stdout.write(`${JSON.stringify({ total, matched, byReason, deadLetters: newest })}\n`);
    return;
  }
  const more = matched - newest.length;
  const lines = [
    ...(more > 0 ? [dim(`… and ${more} more, older ones; --limit shows more`)] : []),
    ...renderTable(newest, desk.now, columnsOf()),
    ...(newest.length > 0 ? [''] : []),
    summary(matched, total, byReason),
  ];
  process.stdout.write(`${lines.join('\n')}\n`);
}

/** Writes them one by one, since all of them may not fit into memory. The caller writes the rest of the object. */
async function writeJsonArray(all: AsyncIterable<Facts>): Promise<void> {
  process.stdout.write('{"deadLetters":[');
  let isFirst = true;
  for await (const facts of all) {
    const hasRoom = process.stdout.write(`${isFirst ? '' : ','}${JSON.stringify(facts)}`);
    isFirst = false;
    if (!hasRoom) await once(process.stdout, 'drain');
  }
  process.stdout.write(']');
}

async function last<T>(all: AsyncIterable<T>, most: number): Promise<T[]> {
  let kept: T[] = [];
  for await (const each of all) {
    kept.push(each);
    if (kept.length >= 2 * most) kept = kept.slice(-most);
  }
  return kept.slice(-most);
}

function summary(matched: number, total: number, byReason: Partial<Record<DeadLetterReason, number>>): string {
  const of = matched === total ? deadLetters(total) : `${matched} of ${deadLetters(total)}`;
  return total === 0 ? 'no dead letters' : `${of}${breakdown(byReason)}`;
}
