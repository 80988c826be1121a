import type { Context, MiddlewareHandler } from 'hono';
import { createMiddleware } from 'hono/factory';
import { HTTPException } from 'hono/http-exception';
import { createMemoryLimiter } from '../src/limiter/memory/memory-limiter.ts';
import { problemResponse, type Problem } from './problems.ts';
import type { Refusals } from './refusals.ts';
import { peerOf, type ApiEnv, type Share } from './serve.ts';
import type { Scope, Token, TokenBook } from './tokens.ts';

/** Who may ask, and how much at a time: what is checked before a route, and again before it acts. */
export interface Access {
  /**
   * Refuses a request without a valid token of this scope. A valid token is never refused because of other requests. Each act
   * asks for the token again, by `acting` or `mayStill` of the request.
   */
  readonly needs: (scope: Scope) => MiddlewareHandler<ApiEnv>;
}

export interface AccessParts {
  readonly tokens: Pick<TokenBook, 'find'>;
  readonly refusals: Pick<Refusals, 'count'>;
}

/** How many requests without a valid token an address may send in a minute before it has to wait. */
const MOST_FAILURES = 20;
/** How many dear reads one token may have under way. */
const MOST_DEAR = 4;
/** How many clients may read outcomes at the same time with one token. */
const MOST_READERS = 20;
/** How many bytes of bodies one token may have in memory: two arrays of the largest size. */
const MOST_HELD = 32 * 1024 * 1024;

export function createAccess({ tokens, refusals }: AccessParts): Access {
  const failures = createMemoryLimiter({ policy: { rules: [{ max: MOST_FAILURES, perMs: 60_000 }], minGapMs: 0 } });
  const [dears, readers, bytes] = [createShares(MOST_DEAR), createShares(MOST_READERS), createShares(MOST_HELD)];

  async function unauthorized(c: Context<ApiEnv>, hasSecret: boolean): Promise<Problem> {
    const address = peerOf(c);
    refusals.count(hasSecret ? 'unknownToken' : 'noToken', address);
    const answer = await failures.admit({ recipientId: address, id: crypto.randomUUID(), maxWaitMs: 0 });
    if (answer.kind !== 'admitted') {
      const seconds = Math.max(1, Math.ceil(answer.waitMs / 1_000));
      const detail = `more than ${MOST_FAILURES} requests without a valid token came from this address within a minute`;
      return { status: 429, code: 'too-many-failures', detail, headers: { 'retry-after': String(seconds) } };
    }
    const detail = hasSecret ? 'no token has this secret' : 'expected the header Authorization: Bearer <token>';
    const error = hasSecret ? ' error="invalid_token"' : '';
    return { status: 401, code: 'unauthorized', detail, headers: { 'www-authenticate': `Bearer${error}` } };
  }

  return {
    needs: (scope) =>
      createMiddleware<ApiEnv>(async (c, next) => {
        const secret = /^Bearer +(\S+)$/i.exec(c.req.header('authorization') ?? '')?.[1] ?? '';
        const token = tokens.find(secret);
        if (token === undefined) return problemResponse(await unauthorized(c, secret !== ''));
        if (!token.scopes.includes(scope)) {
          refusals.count('scope', peerOf(c));
          return problemResponse(forbidden(token, scope));
        }
        const mayStill = (): Token | undefined => {
          const now = tokens.find(secret);
          return now?.scopes.includes(scope) === true ? now : undefined;
        };
        c.set('mayStill', mayStill);
        c.set('acting', () => {
          const now = mayStill();
          if (now !== undefined) return now;
          refusals.count('unknownToken', peerOf(c));
          throw new HTTPException(401, { res: problemResponse(revoked(scope)) });
        });
        const [{ name }, share] = [token, bytes.of(token.name)];
        let held = 0;
        c.set('shares', { dear: dears.of(name), readers: readers.of(name), bytes: share });
        c.set('hold', (more) => {
          const isTaken = share.take(more);
          if (isTaken) held += more;
          return isTaken;
        });
        await next(); // an error is an answer by now
        share.give(held);
        return undefined;
      }),
  };
}

/** The shares of tokens, by their names. */
export function createShares(most: number) {
  const taken = new Map<string, number>();
  return {
    of: (name: string): Share => ({
      take(amount) {
        const sum = (taken.get(name) ?? 0) + amount;
        if (sum > most) return false;
        taken.set(name, sum);
        return true;
      },
      give(amount) {
        const rest = (taken.get(name) ?? 0) - amount;
        if (rest > 0) taken.set(name, rest);
        else taken.delete(name);
      },
    }),
  };
}

/**
 * Answers by dear work: not for a client that has left, and only if its token has not four of it under way.
 *
 * @param work stops between its steps when the signal aborts, because the client has left
 */
export async function dear(c: Context<ApiEnv>, work: (signal: AbortSignal) => Promise<Response>): Promise<Response> {
  const share = c.var.shares.dear;
  if (!share.take(1)) return problemResponse(TOO_MUCH_AT_ONCE);
  try {
    const signal = leavingSignal(c);
    signal.throwIfAborted();
    return await work(signal);
  } finally {
    share.give(1);
  }
}

/** The client closed its connection before it had an answer. Nobody reads an answer to this. */
export class ClientLeft extends Error {
  constructor() {
    super('the client closed its connection');
  }
}

/** Aborts with ClientLeft. The request's own signal aborts with a text, which is no error. */
function leavingSignal(c: Context<ApiEnv>): AbortSignal {
  const { signal } = c.req.raw;
  if (signal.aborted) return AbortSignal.abort(new ClientLeft());
  const leaving = new AbortController();
  signal.addEventListener('abort', () => leaving.abort(new ClientLeft()), { once: true });
  return leaving.signal;
}

export const TOO_MUCH_AT_ONCE: Problem = {
  ...{ status: 429, code: 'too-much-at-once', headers: { 'retry-after': '1' } },
  detail: `this token has as much under way as it may: ${MOST_DEAR} reads that take long, and bodies of ${MOST_HELD} bytes`,
};

function forbidden({ name, scopes }: Token, scope: Scope): Problem {
  const detail = `the token ${name} has the scopes ${scopes.join(', ')}, and this needs ${scope}`;
  return { status: 403, code: 'forbidden', detail };
}

function revoked(scope: Scope): Problem {
  const detail = `the token was revoked, or lost the scope ${scope}, before the request had come whole: nothing was done`;
  return { status: 401, code: 'unauthorized', detail, headers: { 'www-authenticate': 'Bearer error="invalid_token"' } };
}
