import { readFile } from 'node:fs/promises';
import type { Trouble } from '../../src/notification/outcome.ts';
import type { ReplyRow } from '../../src/providers/provider.ts';

/** One code of one of the document's tables, as a person reads it. */
export interface DocumentedAnswer {
  readonly code: string;
  readonly outcome: string;
  readonly attempt: string;
  readonly slot: string;
  readonly provider: string;
}

const DOCUMENTS = ['provider-faults.md', 'webpush.md'].map((name) => new URL(`../../docs/${name}`, import.meta.url));

/** What many answers of a kind say about the provider; how many, stands in src/breaker/circuit.ts. */
const SUSPECTED: Readonly<Record<Trouble, string>> = {
  auth: 'auth, if many',
  configuration: 'configuration, if 20 recipients',
  quota: 'quota, if 20 recipients',
  outage: 'outage, if many',
};

/** The rows of the table under a heading of docs/provider-faults.md or of a provider's own page, one for each code. */
export async function readAnswers(heading: string): Promise<readonly DocumentedAnswer[]> {
  const texts = await Promise.all(DOCUMENTS.map((document) => readFile(document, 'utf8')));
  const sections = texts.flatMap((text) => text.split(/^## /m));
  const section = sections.find((part) => part.startsWith(`${heading}\n`));
  if (section === undefined)
    throw new Error(`neither docs/provider-faults.md nor docs/webpush.md has a section "${heading}"`);
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
  const provider = row.trouble ?? (row.suspect === undefined ? '' : SUSPECTED[row.suspect]);
  return { code, outcome: outcomeOf(row), attempt: attemptOf(row), slot: slotOf(row), provider };
}

function outcomeOf({ meaning, retryAfterMs, ambiguous, trouble }: ReplyRow): string {
  if (meaning === 'accepted') return 'delivered';
  if (meaning !== 'later') return meaning;
  if (ambiguous) return 'again, twice at the most';
  if (trouble === 'auth' || trouble === 'configuration') return 'kept';
  return retryAfterMs === undefined ? 'later' : `later, from ${retryAfterMs / 1_000} s on`;
}

function attemptOf({ meaning, trouble, unsent, isLimit }: ReplyRow): string {
  if (meaning !== 'later') return 'the last';
  return trouble !== undefined || unsent === true || isLimit === true ? 'none' : 'one';
}

function slotOf({ alerted }: ReplyRow): string {
  return alerted === 'no' ? 'given back' : 'kept';
}
