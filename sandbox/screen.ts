import { parseJson } from '../src/domain/json.ts';
import { readRetraction, type Retraction } from '../src/notification/retraction.ts';
import type { JournalEntry } from './journal.ts';

/**
 * What the devices show after these requests, as apps do it that follow docs/retract.md: by the device's token, and by the tag
 * of the alert. An alert replaces an earlier one with its tag; a retraction takes away those whose tags it names.
 *
 * @param entries requests in the order of their arrival
 */
export function screensOf(entries: readonly JournalEntry[]): ReadonlyMap<string, ReadonlyMap<string, JournalEntry>> {
  const screens = new Map<string, Map<string, JournalEntry>>();
  for (const entry of entries) {
    if (!entry.accepted) continue;
    const screen = screens.get(entry.token) ?? new Map<string, JournalEntry>();
    screens.set(entry.token, screen);
    const retraction = retractionIn(entry);
    for (const tag of retraction?.tags ?? []) screen.delete(tag);
    if (retraction === undefined && isShown(entry))
      screen.set(entry.tag ?? entry.collapseId ?? entry.apnsId ?? '', entry);
  }
  return screens;
}

/** The retraction in a request; undefined if it is none. */
export function retractionIn({ data }: JournalEntry): Retraction | undefined {
  const { pushpacer } = data as Readonly<Record<string, unknown>>; // of APNs and FCM a text
  return readRetraction(typeof pushpacer === 'string' ? parseJson(pushpacer) : pushpacer);
}

/** Whether the device shows something for this request. */
function isShown({ title, body }: JournalEntry): boolean {
  return title !== undefined || body !== undefined;
}
