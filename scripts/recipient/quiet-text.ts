import { DAYS, meantDay, type Day, type QuietHours } from '../../src/domain/quiet-hours.ts';
import { unfit } from './flags.ts';

/** `mon-fri`, `sat,sun` or both: the days, in the order in which they are written. */
export function daysOf(text: string): readonly Day[] {
  const days = text.split(',').flatMap((part) => {
    const [first = '', last = first, ...more] = part.trim().split('-');
    const [from, until] = [dayOf(first, text), dayOf(last, text)];
    if (more.length > 0) throw unfit('--days', 'days such as mon-fri or sat,sun', text);
    const count = ((until - from + DAYS.length) % DAYS.length) + 1;
    return Array.from({ length: count }, (_, index) => DAYS[(from + index) % DAYS.length] ?? 'sun');
  });
  return [...new Set(days)];
}

function dayOf(name: string, text: string): number {
  const day = DAYS.findIndex((known) => known === name);
  if (day >= 0) return day;
  const meant = meantDay(name);
  throw unfit(
    '--days',
    `days such as mon-fri or sat,sun${meant === undefined ? '' : ` (did you mean ${meant}?)`}`,
    text,
  );
}

/** `mon,tue 21:00-07:00, 13:00-14:00, Europe/Paris` */
export function quietText({ timezone, quietHours }: QuietHours): string {
  if (quietHours.length === 0) return 'none';
  const times = quietHours.map(({ days, from, until }) => {
    const time = `${from}-${until}`;
    return days === undefined || days.length === DAYS.length ? time : `${days.join(',')} ${time}`;
  });
  return [...times, timezone].join(', ');
}
