import { describe, expect, it } from 'vitest';
import { FORMATS, NewerFormatError, newerFormatOf, newerText, newerThanKnown } from '../../src/domain/format.ts';
import { readScript } from '../../src/redis/scripts.ts';

const next = FORMATS['job data'] + 1;

describe('a format', () => {
  it.each([
    ['no field', {}],
    ['the newest that is known', { format: FORMATS['job data'] }],
    ['a text', { format: String(next) }],
    ['a fraction', { format: next + 0.5 }],
    ['too large to be exact', { format: 2 ** 60 }],
    ['less than the first', { format: -1 }],
    ['of a list', [next]],
    ['of nothing', null],
  ])('%s is not newer', (_, value) => {
    expect(newerThanKnown('job data', value)).toBeUndefined();
  });

  it('is newer from one more on, and is named with what this version reads', () => {
    const newer = newerThanKnown('job data', { format: next });
    expect(newer).toEqual({ what: 'job data', format: next });
    expect(newer && newerText(newer)).toBe('job data in format 2; this version reads format 1');
  });

  it('of the limiter is the same in its scripts, and their refusal is read', () => {
    const script = readScript('format.lua', new URL('../../src/limiter/redis/', import.meta.url));
    expect(script).toContain(`local FORMAT = ${FORMATS['limiter state']} `);
    const refusal = newerFormatOf(new Error('NEWERFORMAT 7 script: 1a2b, on @user_script:1.'));
    expect(refusal).toBeInstanceOf(NewerFormatError);
    expect(refusal?.newer).toEqual({ what: 'limiter state', format: 7 });
    expect(newerFormatOf(new Error('WRONGTYPE'))).toBeUndefined();
  });
});
