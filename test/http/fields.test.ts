import { describe, expect, it } from 'vitest';
import { rateLimitFields } from '../../src/http/fields.ts';

const POLICY = { rules: [{ max: 10, perMs: 60_000 }], minGapMs: 2_500 };
const standing = (rule: string, remaining = 0, resetMs = 100) => ({ rule, remaining, resetMs, gapMs: 2_500 });

describe('the RateLimit fields', () => {
  it('tell a policy in full, in seconds rounded up', () => {
    expect(rateLimitFields(standing('10/1m', 9, 59_001), POLICY)).toEqual({
      'RateLimit-Policy': '"gap";q=1;w=3, "10/1m";q=10;w=60',
      RateLimit: '"10/1m";r=9;t=60',
    });
  });

  it('add the rule that decides where it is of another policy', () => {
    expect(rateLimitFields(standing('messages:5/2h'), POLICY)['RateLimit-Policy']).toBe(
      '"gap";q=1;w=3, "10/1m";q=10;w=60, "messages:5/2h";q=5;w=7200',
    );
  });

  it.each([
    ['10/1m', '"10/1m";q=10;w=60'],
    ['1/250ms', '"1/250ms";q=1;w=1'],
    ['gap', '"gap";q=1;w=3'],
    ['messages:gap', '"messages:gap";q=1;w=3'],
    ['a:b:3/1s', '"a:b:3/1s";q=3;w=1'],
    ['block', '"block";q=0'],
  ])('tell what can be told of %s alone', (rule, item) => {
    expect(rateLimitFields(standing(rule))).toEqual({
      'RateLimit-Policy': item,
      RateLimit: `${item.slice(0, item.indexOf(';'))};r=0;t=1`,
    });
  });

  it('are none where nothing is counted', () => {
    expect(rateLimitFields(standing('none', Infinity, 0))).toEqual({});
    expect(rateLimitFields(standing('unavailable', Infinity, 0), POLICY)).toEqual({});
  });

  it('hold any name at all', () => {
    for (let code = 0; code <= 0x2_ff; code += 1) {
      const field = rateLimitFields(standing(`${String.fromCharCode(code)}:1/1s`))['RateLimit'];
      expect(field).toMatch(/^"([ !#-[\]-~]|\\["\\])+";r=0;t=1$/);
    }
    expect(rateLimitFields(standing('\ud800:1/1s'))['RateLimit']).toBe('"%EF%BF%BD:1/1s";r=0;t=1');
  });
});
