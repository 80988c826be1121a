import { readFile } from 'node:fs/promises';
import type { Reply } from '../../src/providers/provider.ts';
import type { ReplyRow } from '../../src/providers/reply-row.ts';

/** One code of one of the document's tables, as a person reads it. */
export interface DocumentedAnswer {
  readonly code: string;
  readonly outcome: string;
  readonly attempt: string;
  readonly slot: string;
  readonly provider: string;
}

const DOCUMENT = new URL('../../docs/provider-faults.md', import.meta.url);

/** The rows of the table under a heading of docs/provider-faults.md, one for each code. */
export async function readAnswers(heading: string): Promise<readonly DocumentedAnswer[]> {
  const text = await readFile(DOCUMENT, 'utf8');
  const section = text.split(/^## /m).find((part) => part.startsWith(`${heading}\n`));
  if (section === undefined) throw new Error(`docs/provider-faults.md has no section "${heading}"`);
  const rows = section.split('\n').filter((line) => line.startsWith('| `'));
  return rows.flatMap((line) => {
    const [codes = '', outcome = '', attempt = '', slot = '', provider = ''] = line
      .split('|')
      .slice(1)
      .map((cell) => cell.trim());
    return [...codes.matchAll(/`([^`]+)`/g)].map(([, code = '']) => ({ code, outcome, attempt, slot, provider }));
  });
}

/** What the document has to say of a row of the code's tables. */
export function describeRow(code: string, row: ReplyRow): DocumentedAnswer {
  return { code, outcome: outcomeOf(row), attempt: attemptOf(row), slot: slotOf(row), provider: row.trouble ?? '' };
}

function outcomeOf({ meaning, retryAfterMs, ambiguous }: ReplyRow): string {
  if (meaning === 'accepted') return 'delivered';
  if (meaning === 'auth') return 'kept';
  if (meaning !== 'later') return meaning;
  if (ambiguous) return 'again, twice at the most';
  return retryAfterMs === undefined ? 'later' : `later, from ${retryAfterMs / 1_000} s on`;
}

function attemptOf({ meaning, trouble, unreached }: ReplyRow): string {
  const isFree = trouble === 'auth' || trouble === 'quota' || unreached === true;
  return meaning === 'later' || meaning === 'auth' ? (isFree ? 'none' : 'one') : 'the last';
}

function slotOf({ alerted }: ReplyRow): string {
  return alerted === 'no' ? 'given back' : 'kept';
}

/** A reply without the words for a person, which differ from one machine to the next. */
export function withoutDetail(reply: Reply): Reply {
  const { detail, ...rest } = reply;
  return detail === undefined ? reply : rest;
}
