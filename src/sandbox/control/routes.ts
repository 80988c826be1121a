import type { IncomingMessage } from 'node:http';
import { InputError } from '../../domain/faults.ts';
import { parseScriptText } from '../answers/schema.ts';
import type { Sandbox } from '../interface.ts';
import type { Journal } from '../journal.ts';
import { readBody } from '../loopback/exchange.ts';
import { selectEntries } from './query.ts';

/** What the control endpoint looks at and changes. */
export type Controlled = Pick<Sandbox, 'setAnswers' | 'answers'> & {
  readonly journal: Pick<Journal, 'all' | 'of' | 'dropped' | 'clear'>;
};

/** An answer of the control endpoint: a text, or a value that is written as JSON. */
export interface Reply {
  readonly status: number;
  readonly json?: unknown;
  readonly text?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** One call of the control endpoint. */
interface Call {
  readonly sandbox: Controlled;
  readonly request: IncomingMessage;
  readonly query: URLSearchParams;
}

/** The largest script, in bytes: 1 MiB. */
export const MAX_SCRIPT_BYTES = 1_048_576;
const DONE: Reply = { status: 204 };

/** Path → method → what it does. */
const ROUTES: Readonly<Record<string, Readonly<Record<string, (call: Call) => Reply | Promise<Reply>>>>> = {
  '/answers': {
    GET: ({ sandbox }) => shown(sandbox),
    PUT: async ({ sandbox, request }) => {
      const body = await readBody(request, MAX_SCRIPT_BYTES);
      if (!body) return DONE; // the client has gone
      if (body.length > MAX_SCRIPT_BYTES) return failure(413, `expected at most ${MAX_SCRIPT_BYTES} bytes, found more`);
      sandbox.setAnswers(parseScriptText(body.toString('utf8')));
      return shown(sandbox);
    },
    DELETE: ({ sandbox }) => {
      sandbox.setAnswers([]);
      return DONE;
    },
  },
  '/journal': {
    GET: ({ sandbox: { journal }, query }) => ({
      status: 200,
      json: { entries: selectEntries(journal, query), dropped: journal.dropped },
    }),
    DELETE: ({ sandbox }) => {
      sandbox.journal.clear();
      return DONE;
    },
  },
  '/healthz': { GET: () => ({ status: 200, text: 'ok\n' }) },
};

/** Carries out one request. Bad input is answered with 400 and every fault, and changes nothing. */
export async function route(sandbox: Controlled, request: IncomingMessage): Promise<Reply> {
  const { pathname, searchParams: query } = new URL(request.url ?? '/', 'http://sandbox');
  const methods = Object.hasOwn(ROUTES, pathname) ? ROUTES[pathname] : undefined;
  if (!methods) return failure(404, `expected one of the paths ${Object.keys(ROUTES).join(', ')}`);
  const method = request.method === 'HEAD' ? 'GET' : (request.method ?? 'GET');
  const act = Object.hasOwn(methods, method) ? methods[method] : undefined;
  if (!act) {
    const allow = Object.keys(methods).join(', ');
    return { ...failure(405, `expected one of the methods ${allow}, found ${method}`), headers: { allow } };
  }
  try {
    return await act({ sandbox, request, query });
  } catch (error) {
    if (error instanceof InputError) return { ...failure(400, error.message, error.faults) };
    throw error;
  }
}

/** `{ "error": "a sentence", "faults": [{ "path", "expected", "found" }] }` */
export function failure(status: number, error: string, faults: InputError['faults'] = []): Reply {
  return { status, json: { error, faults } };
}

function shown(sandbox: Controlled): Reply {
  return { status: 200, json: { answers: sandbox.answers() } };
}
