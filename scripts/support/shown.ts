import type { Platform } from '../../src/domain/notification.ts';
import type { JournalEntry } from '../../src/sandbox/journal.ts';

/** What a device shows of a request: an alert; one without sound, vibration and banner; nothing loud, because it has no alert. */
export type Shown = 'alert' | 'silent' | 'nothing';

/** By what arrived at the provider. */
export function shownOf(entry: JournalEntry): Shown {
  return SHOWN[entry.platform](entry);
}

const SHOWN: Readonly<Record<Platform, (entry: JournalEntry) => Shown>> = {
  apns({ pushType, payload }) {
    if (pushType === 'background') return 'nothing';
    if (pushType === 'liveactivity') return field(payload, 'aps', 'alert') === undefined ? 'nothing' : 'alert';
    return field(payload, 'aps', 'interruption-level') === 'passive' ? 'silent' : 'alert';
  },
  fcm({ payload }) {
    const ofAndroid = field(payload, 'android', 'notification');
    if (field(payload, 'notification') === undefined && ofAndroid === undefined) return 'nothing';
    return field(ofAndroid, 'notification_priority') === 'PRIORITY_LOW' ? 'silent' : 'alert';
  },
  webpush: ({ payload }) => (field(payload, 'silent') === true ? 'silent' : 'alert'), // a browser shows every push
};

/** What is at the end of a path; undefined if it leads nowhere. */
function field(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce(
    (inner, name) =>
      typeof inner === 'object' && inner !== null ? (inner as Record<string, unknown>)[name] : undefined,
    value,
  );
}
