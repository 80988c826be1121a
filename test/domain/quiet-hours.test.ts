import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatFault } from '../../src/domain/faults.ts';
import {
  DAYS,
  quietFaults,
  quietText,
  quietWindows,
  type QuietHours,
  type QuietTime,
} from '../../src/domain/quiet-hours.ts';

const NIGHT = { from: '21:00', until: '07:00' };
const ZONE = 'expected a time zone such as Europe/Paris';
const at = (...quietHours: unknown[]) => ({ timezone: 'UTC', quietHours });

function faultsOf(value: unknown): string[] {
  return quietFaults(value).map(formatFault);
}

describe('quiet hours', () => {
  it.each([
    ['every night', { timezone: 'Europe/Paris', quietHours: [NIGHT] }],
    ['none', { timezone: 'UTC', quietHours: [] }],
    ['some days', { timezone: 'asia/kolkata', quietHours: [{ ...NIGHT, days: ['mon', 'sun'] }] }],
    ['a whole day', { timezone: '+02:00', quietHours: [{ days: ['sun'], from: '00:00', until: '24:00' }] }],
  ])('may be %s', (_, hours) => {
    expect(faultsOf(hours)).toEqual([]);
  });

  it.each([
    [null, 'expected an object, found null'],
    [{ quietHours: [] }, `timezone: ${ZONE}, found nothing`],
    [
      { timezone: 'Europe/Pariss', quietHours: [] },
      `timezone: ${ZONE} (did you mean Europe/Paris?), found "Europe/Pariss"`,
    ],
    [{ timezone: 'Mars/Olympus', quietHours: [] }, `timezone: ${ZONE}, found "Mars/Olympus"`],
    [{ timezone: 'UTC' }, 'quietHours: expected an array of at most 50 quiet times, found nothing'],
    [{ timezone: 'UTC', quietHours: {} }, 'quietHours: expected an array of at most 50 quiet times, found an object'],
    [at('night'), 'quietHours[0]: expected an object, found "night"'],
    [
      at({ ...NIGHT, until: '21:00' }),
      'quietHours[0].until: expected another time than from (for a whole day: from 00:00 until 24:00), found "21:00"',
    ],
    [
      at({ from: '24:00', until: '7:00' }),
      'quietHours[0].from: expected a time from 00:00 to 23:59, found "24:00"',
      'quietHours[0].until: expected a time from 00:00 to 24:00, found "7:00"',
    ],
    [
      at({ ...NIGHT, days: ['Monday', 'tus', 'x'] }),
      'quietHours[0].days[0]: expected mon, tue, wed, thu, fri, sat or sun (did you mean mon?), found "Monday"',
      'quietHours[0].days[1]: expected mon, tue, wed, thu, fri, sat or sun (did you mean tue?), found "tus"',
      'quietHours[0].days[2]: expected mon, tue, wed, thu, fri, sat or sun, found "x"',
    ],
    [at({ ...NIGHT, days: [] }), 'quietHours[0].days: expected an array of 1 to 7 days, found an array of 0'],
    [
      { timeZone: 'UTC', quietHours: [{ ...NIGHT, day: ['mon'] }] },
      'timeZone: expected no such field (did you mean timezone?), found one',
      `timezone: ${ZONE}, found nothing`,
      'quietHours[0].day: expected no such field (did you mean days?), found one',
    ],
    [
      at(NIGHT, { from: '06:30', until: '21:30' }),
      'quietHours: expected some time in the week that is not quiet, found none',
    ],
  ])('are refused: %j', (hours, ...faults) => {
    expect(faultsOf(hours)).toEqual(faults);
  });

  it('are written in one way', () => {
    const text = '{"timezone":"UTC","quietHours":[{"days":["mon"],"from":"21:00","until":"07:00"}]}';
    expect(quietText({ quietHours: [{ until: '07:00', from: '21:00', days: ['mon'] }], timezone: 'UTC' })).toBe(text);
  });
});

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const MINUTES = 60_000;

const FORMATS = new Map<string, Intl.DateTimeFormat>();

/** What the clock of a zone shows, written by Intl as text: `Sat 03:07`. */
function clockOf(timezone: string, at: number): { readonly day: string; readonly time: string } {
  const format =
    FORMATS.get(timezone) ??
    new Intl.DateTimeFormat('en-GB', {
      timeZone: timezone,
      ...{ weekday: 'short', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' },
    });
  FORMATS.set(timezone, format);
  const [day = '', time = ''] = format.format(at).split(' ');
  return { day: day.toLowerCase().slice(0, 3), time };
}

/** Whether the clock shows a quiet time: said without any instant of a beginning or an end. */
function isQuietByClock({ timezone, quietHours }: QuietHours, at: number): boolean {
  const { day, time } = clockOf(timezone, at);
  const before = DAYS[(DAYS.findIndex((name) => name === day) + 6) % 7];
  return quietHours.some(({ days = DAYS, from, until }) => {
    const [isToday, isYesterday] = [days.some((name) => name === day), days.some((name) => name === before)];
    if (from < until) return isToday && time >= from && time < until;
    return (isToday && time >= from) || (isYesterday && time < until);
  });
}

const times = fc
  .tuple(fc.nat(24 * 60 - 1), fc.nat(24 * 60))
  .filter(([from, until]) => from !== until)
  .map(([from, until]) => ({ from: written(from), until: written(until) }));
const quietTimes: fc.Arbitrary<QuietTime> = fc.oneof(
  times,
  fc.tuple(times, fc.subarray([...DAYS], { minLength: 1 })).map(([time, days]) => ({ ...time, days })),
);
const zones = fc.oneof(
  fc.constantFrom(...Intl.supportedValuesOf('timeZone')),
  // Changes at midnight, by half an hour, several a year, none, a day that was skipped, an offset with seconds.
  fc.constantFrom(
    ...['America/Santiago', 'Asia/Beirut', 'Australia/Lord_Howe', 'Africa/Casablanca', 'UTC', 'Pacific/Apia'],
    ...['Africa/Monrovia', 'Asia/Kathmandu', 'Europe/Paris', 'America/New_York', 'America/Havana', '+05:45'],
  ),
);

function written(minutes: number): string {
  return [Math.floor(minutes / 60), minutes % 60].map((part) => String(part).padStart(2, '0')).join(':');
}

const begin = fc.integer({ min: Date.UTC(1971, 0), max: Date.UTC(2037, 0) });

describe('quiet windows', () => {
  it('contain an instant exactly if the clock of the zone shows a quiet time', () => {
    let quiet = 0;
    let changes = 0;
    const property = fc.property(
      zones,
      fc.array(quietTimes, { minLength: 1, maxLength: 4 }),
      begin,
      (timezone, list, from) => {
        const hours = { timezone, quietHours: list };
        const until = from + 10 * DAY;
        const windows = quietWindows(hours, from, until);
        const isIn = (at: number) => windows.some((window) => at >= window.from && at < window.until);
        const edges = windows.flatMap((window) => [window.from - 1, window.from, window.until - 1, window.until]);
        const others = Array.from({ length: 40 }, (_, index) => from + Math.floor((index * 10 * DAY) / 40));
        for (const at of [...edges, ...others].filter((each) => each >= from && each < until)) {
          expect(isIn(at), `${timezone} ${new Date(at).toISOString()}`).toBe(isQuietByClock(hours, at));
          if (isIn(at)) quiet += 1;
        }
        for (const [index, window] of windows.entries()) {
          expect(window.from).toBeLessThan(window.until);
          if (index > 0) expect(window.from).toBeGreaterThan(windows[index - 1]?.until ?? Infinity);
          if (window.until - window.from > 24 * HOUR) changes += 1;
        }
      },
    );
    fc.assert(property, { numRuns: 300 });
    expect(quiet).toBeGreaterThan(1_000);
    expect(changes).toBeGreaterThan(0);
  });

  it.each([
    // The clock goes from 02:00 to 03:00: the night has an hour less.
    ['2026-03-28T12:00:00Z', '2026-03-28T20:00:00.000Z', '2026-03-29T05:00:00.000Z'],
    // From 03:00 back to 02:00: an hour more.
    ['2026-10-24T12:00:00Z', '2026-10-24T19:00:00.000Z', '2026-10-25T06:00:00.000Z'],
    ['2026-11-21T12:00:00Z', '2026-11-21T20:00:00.000Z', '2026-11-22T06:00:00.000Z'],
  ])('keep to the clock in Paris in the night after %s', (after, from, until) => {
    const start = Date.parse(after);
    const hours = { timezone: 'Europe/Paris', quietHours: [{ from: '21:00', until: '07:00' }] };
    const windows = quietWindows(hours, start, start + DAY - 2 * HOUR);
    expect(windows).toEqual([{ from: Date.parse(from), until: Date.parse(until) }]);
  });

  it('repeat what the clock repeats, and leave out what it leaves out', () => {
    const hours = { timezone: 'Europe/Paris', quietHours: [{ from: '02:15', until: '02:45' }] };
    const windowsOn = (day: string) => quietWindows(hours, Date.parse(day), Date.parse(day) + 6 * HOUR);
    expect(windowsOn('2026-03-29T00:00:00Z')).toEqual([]);
    const first = Date.parse('2026-10-25T00:15:00Z');
    expect(windowsOn('2026-10-25T00:00:00Z')).toEqual([
      { from: first, until: first + 30 * MINUTES },
      { from: first + HOUR, until: first + HOUR + 30 * MINUTES },
    ]);
  });
});
