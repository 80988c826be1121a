import { z } from 'zod';
import { InputError, type Fault } from '../../domain/faults.ts';
import { PLATFORMS, type Platform } from '../../domain/notification.ts';
import type { JournalEntry, SandboxJournal } from '../journal.ts';

const INSTANT = 'epoch milliseconds or an RFC 3339 date-time';
const dateTime = z.iso.datetime({ offset: true });

/** Which entries a `GET /journal` asks for. */
type Select = (entry: JournalEntry) => boolean;

/** A parameter's value → what it selects, or what was expected of it. */
type Parameter = (value: string, journal: Pick<SandboxJournal, 'of'>) => Select | string;

const PARAMETERS: Readonly<Record<string, Parameter>> = {
  since: (value) => {
    const instant = instantOf(value);
    return instant === undefined ? INSTANT : ({ at }) => at > instant;
  },
  platform: (value) =>
    PLATFORMS.includes(value as Platform)
      ? ({ platform }) => platform === value
      : PLATFORMS.map((platform) => `"${platform}"`).join(' or '),
  token:
    (value) =>
    ({ platform, token }) =>
      token === (platform === 'apns' ? value.toLowerCase() : value),
  id: (value, journal) => {
    const own = new Set(journal.of(value));
    return (entry) => own.has(entry);
  },
  accepted: (value) =>
    value === 'true' || value === 'false' ? ({ accepted }) => String(accepted) === value : '"true" or "false"',
};

/**
 * The entries that a `GET /journal` asks for, by all of its parameters.
 *
 * @throws InputError for a parameter that there is not, or with a bad value.
 */
export function selectEntries(
  journal: Pick<SandboxJournal, 'all' | 'of'>,
  query: URLSearchParams,
): readonly JournalEntry[] {
  const faults: Fault[] = [];
  const selects: Select[] = [];
  for (const [name, value] of query) {
    const parameter = Object.hasOwn(PARAMETERS, name) ? PARAMETERS[name] : undefined;
    const select = parameter?.(value, journal) ?? `one of ${Object.keys(PARAMETERS).join(', ')}`;
    if (typeof select === 'function') selects.push(select);
    else if (parameter) faults.push({ path: name, expected: select, found: JSON.stringify(value.slice(0, 80)) });
    else faults.push({ path: '', expected: `${select} as a parameter`, found: JSON.stringify(name.slice(0, 40)) });
  }
  if (faults.length > 0) throw new InputError('the query', faults);
  return journal.all.filter((entry) => selects.every((select) => select(entry)));
}

function instantOf(text: string): number | undefined {
  if (/^\d{1,15}(\.\d{1,9})?$/.test(text)) return Number(text);
  const upper = text.toUpperCase();
  return dateTime.safeParse(upper).success ? Date.parse(upper) : undefined;
}
