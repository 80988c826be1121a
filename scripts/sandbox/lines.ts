import { entryText, tokenStart, type JournalEntry } from '../../src/sandbox/journal-entry.ts';

/** A line for a person: `14:02:11.482 fcm  dGVz… refused 404 UNREGISTERED "Room 12" push id 5f1c7a0e`. The time is this machine's. */
export function requestLine(entry: JournalEntry): string {
  const at = new Date(entry.at);
  const [hours, minutes, seconds] = [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => pad(part, 2));
  return `${hours}:${minutes}:${seconds}.${pad(at.getMilliseconds(), 3)} ${entryText(entry)}`;
}

/** The same for a program, under `--json`: fields of the journal, with the token's beginning and without the alert's text. */
export function requestJson(entry: JournalEntry): Readonly<Record<string, unknown>> {
  const { at, platform, token, accepted, status, reason, title, apnsId, tag, collapseId } = entry;
  return { at, platform, token: tokenStart(token), accepted, status, reason, title, apnsId, tag, collapseId };
}

function pad(value: number, digits: number): string {
  return String(value).padStart(digits, '0');
}
