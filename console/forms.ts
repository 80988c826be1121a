import type { Context, MiddlewareHandler } from 'hono';
import { HTTPException } from 'hono/http-exception';
import type { ConsoleEnv } from './session.ts';

// How forms and addresses come in. What is too large, of another kind, or too slow is refused before anybody looks at it.

interface Most {
  readonly bytes: number;
  readonly fields: number;
}

/** More than any page of the console has: 200 dead letters that were chosen, and the fields beside them. */
const FORM: Most = { bytes: 64 * 1024, fields: 300 };
/** A token, and where to go then. Anybody may send a login, so it has as little room as that takes. */
const LOGIN: Most = { bytes: 8 * 1024, fields: 10 };
/** A form must come whole within this time, however slowly its bytes come. */
const FORM_MS = 30_000;
/** How many logins may be on their way at a time. */
const MOST_LOGINS = 100;
const TYPE = 'application/x-www-form-urlencoded';
const SAFE = new Set(['GET', 'HEAD']);

/** Refuses what no browser sends, before anything of it is read. */
export const asBrowsersAsk: MiddlewareHandler<ConsoleEnv> = async (c, next) => {
  if (c.req.header('transfer-encoding') !== undefined) {
    c.header('Connection', 'close'); // else the rest would be read to its end
    return c.text('expected the header Content-Length, which browsers send with a form\n', 411);
  }
  if (fieldsIn(c.req.url) > FORM.fields) {
    return c.text(`an address has at most ${FORM.fields} fields\n`, 400);
  }
  await next();
  if (SAFE.has(c.req.method) && c.req.header('content-length') !== undefined) c.header('Connection', 'close');
  return undefined;
};

/** The form of a page. Refuses if the user may no longer act when it has come whole. */
export async function formOf(c: Context<ConsoleEnv>): Promise<URLSearchParams> {
  const form = await readForm(c, FORM);
  c.get('acting')();
  return form;
}

/**
 * Reads the forms of logins. If too many are on their way, the one that has been for longest is given up: a browser sends its
 * login whole, so slow ones keep nobody out.
 */
export function createLoginForms(): (c: Context<ConsoleEnv>) => Promise<URLSearchParams> {
  const coming = new Set<AbortController>();
  return async (c) => {
    const [oldest] = coming;
    if (coming.size >= MOST_LOGINS) oldest?.abort();
    const own = new AbortController();
    coming.add(own);
    try {
      return await readForm(c, LOGIN, own.signal);
    } finally {
      coming.delete(own);
    }
  };
}

/** Throws HTTPException. `givenUp` ends it before its time is over. */
async function readForm(c: Context<ConsoleEnv>, most: Most, givenUp?: AbortSignal): Promise<URLSearchParams> {
  const type = c.req.header('content-type')?.split(';')[0]?.trim().toLowerCase();
  if (type !== TYPE) throw new HTTPException(415, { message: `expected a form, as ${TYPE}` });
  const bytes = Number(c.req.header('content-length') ?? 0); // Node reads no more of a body than this
  if (bytes > most.bytes) throw tooLarge(`${most.bytes} bytes`);
  const text = await wholeText(c, givenUp);
  if (fieldsIn(text) > most.fields) throw tooLarge(`${most.fields} fields`);
  return new URLSearchParams(text);
}

async function wholeText(c: Context<ConsoleEnv>, givenUp?: AbortSignal): Promise<string> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(late.reject, FORM_MS);
  givenUp?.addEventListener('abort', late.reject);
  try {
    return await Promise.race([c.req.text(), late.promise]);
  } catch {
    // Also if the client has left; then nobody reads the answer.
    throw new HTTPException(408, { message: `the form did not come whole within ${FORM_MS / 1_000} s` });
  } finally {
    clearTimeout(timer);
  }
}

function tooLarge(most: string): HTTPException {
  return new HTTPException(413, { message: `this form has at most ${most}` });
}

function fieldsIn(text: string): number {
  return text.split('&').length;
}
