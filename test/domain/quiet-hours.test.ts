import { describe, expect, it } from 'vitest';
import { formatFault } from '../../src/domain/faults.ts';
import { quietFaults, quietText } from '../../src/domain/quiet-hours.ts';

const NIGHT = { from: '21:00', until: '07:00' };

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
    [{ quietHours: [] }, 'timezone: expected a time zone such as Europe/Paris, found nothing'],
    [
      { timezone: 'Europe/Pariss', quietHours: [] },
      'timezone: expected a time zone such as Europe/Paris (did you mean Europe/Paris?), found "Europe/Pariss"',
    ],
    [
      { timezone: 'Mars/Olympus', quietHours: [] },
      'timezone: expected a time zone such as Europe/Paris, found "Mars/Olympus"',
    ],
    [{ timezone: 'UTC' }, 'quietHours: expected an array of at most 50 quiet times, found nothing'],
    [{ timezone: 'UTC', quietHours: {} }, 'quietHours: expected an array of at most 50 quiet times, found an object'],
    [{ timezone: 'UTC', quietHours: ['night'] }, 'quietHours[0]: expected an object, found "night"'],
    [
      { timezone: 'UTC', quietHours: [{ ...NIGHT, until: '21:00' }] },
      'quietHours[0].until: expected another time than from (for a whole day: from 00:00 until 24:00), found "21:00"',
    ],
    [
      { timezone: 'UTC', quietHours: [{ from: '24:00', until: '7:00' }] },
      'quietHours[0].from: expected a time from 00:00 to 23:59, found "24:00"',
      'quietHours[0].until: expected a time from 00:00 to 24:00, found "7:00"',
    ],
    [
      { timezone: 'UTC', quietHours: [{ ...NIGHT, days: ['Monday', 'tus', 'x'] }] },
      'quietHours[0].days[0]: expected mon, tue, wed, thu, fri, sat or sun (did you mean mon?), found "Monday"',
      'quietHours[0].days[1]: expected mon, tue, wed, thu, fri, sat or sun (did you mean tue?), found "tus"',
      'quietHours[0].days[2]: expected mon, tue, wed, thu, fri, sat or sun, found "x"',
    ],
    [
      { timezone: 'UTC', quietHours: [{ ...NIGHT, days: [] }] },
      'quietHours[0].days: expected an array of 1 to 7 days, found an array of 0',
    ],
    [
      { timeZone: 'UTC', quietHours: [{ ...NIGHT, day: ['mon'] }] },
      'timeZone: expected no such field (did you mean timezone?), found one',
      'timezone: expected a time zone such as Europe/Paris, found nothing',
      'quietHours[0].day: expected no such field (did you mean days?), found one',
    ],
    [
      { timezone: 'UTC', quietHours: [NIGHT, { from: '06:30', until: '21:30' }] },
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
