import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { expressLimit } from '../../src/http/express.ts';
import { rateLimitFields } from '../../src/http/limit.ts';
import { urlOf } from '../support/listen.ts';
import { httpContract } from './contract.ts';

// Express and Fastify are in test/slow/http.
httpContract('node:http', async ({ refuseWith, ...options }) => {
  let served = 0;
  const limit = expressLimit<IncomingMessage, ServerResponse>({
    ...options,
    ...(refuseWith && { refuse: (_request, response, refusal) => response.end(refuseWith(refusal)) }),
  });
  const server = createServer((request, response) => {
    limit(request, response, (error) => {
      if (error === undefined) served += 1;
      else response.statusCode = 500;
      response.end(error === undefined ? 'served' : 'failed');
    });
  });
  return { url: await urlOf(server), served: () => served };
});

const room = (rule: string, max: number, perMs: number, remaining: number, resetMs: number) => ({
  rule,
  max,
  perMs,
  remaining,
  resetMs,
});
const GAP = room('gap', 1, 2_500, 0, 2_500);
const MINUTE = room('10/1m', 10, 60_000, 9, 59_001);
const HOUR = room('messages:50/1h', 50, 3_600_000, 12, 0);
const admitted = { rule: 'gap', remaining: 0, resetMs: 2_500 };

describe('the RateLimit fields', () => {
  it('show every rule in seconds rounded up, gaps last: with a gap, windows still show what is left', () => {
    const rules = [GAP, MINUTE, { ...GAP, rule: 'messages:gap', perMs: 1 }, HOUR];
    expect(rateLimitFields({ ...admitted, rules }, false)).toEqual({
      'RateLimit-Policy': '"10/1m";q=10;w=60, "messages:50/1h";q=50;w=3600, "gap";q=1;w=3, "messages:gap";q=1;w=1',
      RateLimit: '"10/1m";r=9;t=60, "messages:50/1h";r=12;t=0, "gap";r=0;t=3, "messages:gap";r=0;t=3',
    });
  });

  it('show the rule that makes a request wait before all others', () => {
    const waiting = { rule: 'gap', remaining: 0, resetMs: 1_200 };
    expect(rateLimitFields({ ...waiting, rules: [{ ...GAP, resetMs: 800 }, MINUTE] }, true)).toEqual({
      'RateLimit-Policy': '"gap";q=1;w=3, "10/1m";q=10;w=60',
      RateLimit: '"gap";r=0;t=2, "10/1m";r=9;t=60',
    });
  });

  it('show a block, which has no window', () => {
    expect(rateLimitFields({ rule: 'block', remaining: 0, resetMs: 100, rules: [MINUTE] }, true)).toEqual({
      'RateLimit-Policy': '"block";q=0, "10/1m";q=10;w=60',
      RateLimit: '"block";r=0;t=1, "10/1m";r=9;t=60',
    });
  });

  it('are none where nothing is counted', () => {
    expect(rateLimitFields({ rule: 'none', remaining: Infinity, resetMs: 0, rules: [] }, false)).toEqual({});
    expect(rateLimitFields({ rule: 'unavailable', remaining: Infinity, resetMs: 0 }, false)).toEqual({});
  });

  it('can contain any name at all', () => {
    const field = (rule: string) => rateLimitFields({ rule, remaining: 0, resetMs: 100 }, true)['RateLimit'];
    for (let code = 0; code <= 0x2_ff; code += 1) {
      expect(field(`${String.fromCharCode(code)}:1/1s`)).toMatch(/^"([ !#-[\]-~]|\\["\\])+";r=0;t=1$/);
    }
    expect(field('\ud800:1/1s')).toBe('"%EF%BF%BD:1/1s";r=0;t=1');
  });
});
