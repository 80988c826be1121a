import type { Context, MiddlewareHandler } from 'hono';
import { HTTPException } from 'hono/http-exception';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import { createMemoryLimiter } from '../src/limiter/memory/memory-limiter.ts';
import type { Refusals } from '../api/refusals.ts';
import type { TokenBook } from '../api/tokens.ts';
import { isLoopback, peerOf, type Bindings } from '../api/serve.ts';

/** A viewer sees everything; an operator may also change things. */
export type Role = 'viewer' | 'operator';

export interface User {
  /** The name of the token; `local` if there is no login. The audit shows it. */
  readonly name: string;
  readonly role: Role;
}

export interface ConsoleEnv {
  Bindings: Bindings;
  Variables: {
    user: User;
    /** The user who acts, asked for just before: throws HTTPException if the token was revoked, or may only look now. */
    acting: () => User;
    /** The nonce in this answer's Content-Security-Policy: scripts and styles of a page need it. */
    secureHeadersNonce?: string;
  };
}

export interface SessionOptions {
  readonly tokens: Pick<TokenBook, 'find'>;
  /** Counts logins that failed. */
  readonly refusals: Pick<Refusals, 'count'>;
  readonly host: string;
  /** Whether a login is needed on this machine too. */
  readonly login: boolean;
  readonly readOnly: boolean;
  readonly isSecure: boolean;
}

export interface Sessions {
  /** Sets `user` and `acting`; or answers with a refusal, or redirects to the login. */
  readonly guard: MiddlewareHandler<ConsoleEnv>;
  /** Refuses a request that another site may have made the user's browser send. */
  readonly sameOrigin: MiddlewareHandler<ConsoleEnv>;
  readonly isLoginWanted: boolean;
  /** Logs in with a token's secret. If that fails, resolves to what is wrong, for people to read. */
  login(c: Context<ConsoleEnv>, secret: string): Promise<string | undefined>;
  logout(c: Context<ConsoleEnv>): void;
}

const COOKIE = 'pushpacer_console';
/** A session ends when the browser ends it, when its token is revoked, or after this time. */
const SESSION_S = 12 * 3_600;
/** How many failed logins an address may have in a minute before it has to wait. */
const MOST_FAILURES = 10;
/** The allowed values of `Host`, without a port. Another name that leads to this machine may be another site's (DNS rebinding). */
const LOCAL_HOSTS = new Set(['localhost', '127.0.0.1', '[::1]']);
const SAFE = new Set(['GET', 'HEAD']);

/**
 * Who may use the console. On the loopback everybody on this machine is an operator, unless a login is wanted. Otherwise a
 * token of the API's file logs in: `operate` makes an operator, `read` a viewer. The cookie contains the token itself, so a
 * revoked token has no access from then on, and there is no list of sessions to keep.
 */
export function createSessions({ tokens, refusals, host, login, readOnly, isSecure }: SessionOptions): Sessions {
  const isWanted = isLoginWanted({ host, login });
  const failures = createMemoryLimiter({ policy: { rules: [{ max: MOST_FAILURES, perMs: 60_000 }], minGapMs: 0 } });

  function userOf(secret: string): User | undefined {
    const token = tokens.find(secret);
    if (token === undefined) return undefined;
    if (token.scopes.includes('operate')) return { name: token.name, role: readOnly ? 'viewer' : 'operator' };
    return token.scopes.includes('read') ? { name: token.name, role: 'viewer' } : undefined;
  }

  function whoIs(c: Context<ConsoleEnv>): User | undefined {
    if (!isWanted) return { name: 'local', role: readOnly ? 'viewer' : 'operator' };
    return userOf(getCookie(c, COOKIE) ?? '');
  }

  return {
    isLoginWanted: isWanted,
    guard: async (c, next) => {
      const name = (c.req.header('host') ?? '').replace(/:\d+$/, '');
      if (!isWanted && !LOCAL_HOSTS.has(name) && name !== host) return c.text(FOREIGN_HOST, 421);
      const user = whoIs(c);
      if (user === undefined) {
        if (!SAFE.has(c.req.method)) return c.text(`${ENDED}\n`, 401);
        const wanted = `${c.req.path}${new URL(c.req.url).search}`;
        return c.redirect(wanted === '/' ? '/login' : `/login?to=${encodeURIComponent(wanted)}`, 303);
      }
      c.set('user', user);
      c.set('acting', () => {
        const now = whoIs(c);
        if (now?.role !== 'operator') throw new HTTPException(401, { message: ENDED });
        return now;
      });
      return next();
    },
    sameOrigin: async (c, next) => {
      if (SAFE.has(c.req.method)) return next();
      const site = c.req.header('sec-fetch-site');
      const isSame = site === undefined ? isOwnOrigin(c.req.header('origin'), c) : site === 'same-origin';
      return isSame ? next() : c.text('refused: this request came from another site\n', 403);
    },
    async login(c, secret) {
      const user = userOf(secret.trim());
      if (user !== undefined) {
        const isBehindTls = c.req.header('x-forwarded-proto') === 'https';
        const options = { httpOnly: true, sameSite: 'Strict', path: '/', maxAge: SESSION_S } as const;
        setCookie(c, COOKIE, secret.trim(), { ...options, secure: isSecure || isBehindTls });
        return undefined;
      }
      const address = peerOf(c);
      refusals.count(tokens.find(secret.trim()) === undefined ? 'unknownToken' : 'scope', address);
      const answer = await failures.admit({ recipientId: address, id: crypto.randomUUID(), maxWaitMs: 0 });
      if (answer.kind !== 'admitted') return `too many attempts; try again in ${Math.ceil(answer.waitMs / 1_000)} s`;
      if (tokens.find(secret.trim()) !== undefined) return 'this token has neither the scope read nor operate';
      return 'no token has this secret; an operator makes one with: pushpacer token add <name> --scope read,operate';
    },
    logout: (c) => void deleteCookie(c, COOKIE, { path: '/' }),
  };
}

/** Whether a login is needed; on other addresses than the loopback it always is. */
export function isLoginWanted({ host, login }: Pick<SessionOptions, 'host' | 'login'>): boolean {
  return login || !isLoopback(host);
}

const ENDED = 'your login has ended: log in again';
const FOREIGN_HOST =
  'The console without a login answers only to localhost and 127.0.0.1. Behind a proxy set CONSOLE_LOGIN=true.\n';

/** Whether the origin is this console. Only the host is compared, since a proxy with TLS before the console changes the scheme. */
function isOwnOrigin(origin: string | undefined, c: Context<ConsoleEnv>): boolean {
  return origin !== undefined && URL.canParse(origin) && new URL(origin).host === c.req.header('host');
}
