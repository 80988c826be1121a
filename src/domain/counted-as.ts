/** Whose limits count a notification: those of alerts, or one of those that are apart from them. */
export type CountedAs = 'alert' | CountedApart;
/** What shows nothing loud takes no slot of the alerts. Each has rules, slots and keys of its own. */
export type CountedApart = (typeof COUNTED_APART)[number];
export const COUNTED_APART = ['background', 'liveactivity'] as const;

/**
 * By the fields of a notification, or of any job's data. A Live Activity's push with an alert alerts like any other one, so it
 * takes a slot of the alerts.
 */
export function countedAs({ pushType, alert }: { readonly pushType?: unknown; readonly alert?: unknown }): CountedAs {
  if (pushType === 'background') return pushType;
  return pushType === 'liveactivity' && alert === undefined ? pushType : 'alert';
}
