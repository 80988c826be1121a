import { once } from 'node:events';
import { createServer, type ServerResponse, type IncomingMessage } from 'node:http';
import { isIP, type AddressInfo } from 'node:net';
import { z } from 'zod';
import { InputError, type Fault } from '../src/domain/faults.ts';
import { PLATFORMS, type Platform } from '../src/notification/notification.ts';
import { parseScriptText } from './answers.ts';
import type { Sandbox } from './interface.ts';
import type { Journal, JournalEntry, SandboxJournal } from './journal.ts';
import { readBody } from './loopback/exchange.ts';

export interface ControlOptions {
  /** 0 takes any free port. */
  readonly port: number;
  /** The address to listen on. */
  readonly host: string;
  /** The host name that clients use, if it is no address. */
  readonly name?: string | undefined;
}

/** Plain HTTP, by which people and tests in any language script a running sandbox and read its journal. */
export interface ControlServer {
  readonly port: number;
  /** Stops at once. */
  close(): Promise<void>;
}

/** Rejects with the system's error where the port is taken. */
export async function serveControl(sandbox: Controlled, options: ControlOptions): Promise<ControlServer> {
  const { port, host, name } = options;
  const server = createServer((request, response) => {
    if (!isOwnName(request.headers.host, name)) {
      send(response, failure(403, 'expected an address, localhost or the name of --name in the Host header'));
      request.resume();
      return;
    }
    route(sandbox, request).then(
      (reply) => send(response, reply),
      (error: unknown) => send(response, failure(500, String(error))),
    );
  });
  server.listen(port, host);
  await once(server, 'listening'); // rejects where there is an error instead
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/**
 * A page in this machine's browser may have its own host name point here (DNS rebinding), to read the journal. Then the Host
 * header has that name.
 */
function isOwnName(header: string | undefined, name: string | undefined): boolean {
  if (header === undefined || !URL.canParse(`http://${header}`)) return false;
  const { hostname } = new URL(`http://${header}`);
  return hostname === 'localhost' || hostname === name?.toLowerCase() || isIP(hostname.replace(/^\[|\]$/g, '')) !== 0;
}

function send(response: ServerResponse, { status, json, text, headers = {} }: Reply): void {
  const isJson = json !== undefined;
  const body = isJson ? `${JSON.stringify(json, null, 2)}\n` : (text ?? '');
  const type = { 'content-type': isJson ? 'application/json' : 'text/plain' };
  response.writeHead(status, { ...(body === '' ? {} : type), ...headers }).end(body);
}

/** What the control endpoint looks at and changes. */
export type Controlled = Pick<Sandbox, 'setAnswers' | 'answers'> & {
  readonly journal: Pick<Journal, 'all' | 'of' | 'dropped' | 'clear'>;
};

/** An answer of the control endpoint: a text, or a value that is written as JSON. */
interface Reply {
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
async function route(sandbox: Controlled, request: IncomingMessage): Promise<Reply> {
  const url = URL.parse(request.url ?? '/', 'http://sandbox');
  if (url === null) return failure(400, 'expected a path, such as /journal');
  const { pathname, searchParams: query } = url;
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
function failure(status: number, error: string, faults: InputError['faults'] = []): Reply {
  return { status, json: { error, faults } };
}

function shown(sandbox: Controlled): Reply {
  return { status: 200, json: { answers: sandbox.answers() } };
}

const INSTANT = 'epoch milliseconds or an RFC 3339 date-time';
const dateTime = z.iso.datetime({ offset: true });

/** Which entries a `GET /journal` asks for. */
type Select = (entry: JournalEntry) => boolean;

/** A parameter's value → what it selects, or what was expected of it. */
type Parameter = (value: string, journal: Pick<SandboxJournal, 'of'>) => Select | string;

const PARAMETERS: Readonly<Record<string, Parameter>> = {
  since: (value) => {
    const instant = instantOf(value);
    return instant === undefined ? INSTANT : ({ at }) => at > instant;
  },
  platform: (value) =>
    PLATFORMS.includes(value as Platform)
      ? ({ platform }) => platform === value
      : PLATFORMS.map((platform) => `"${platform}"`).join(' or '),
  token:
    (value) =>
    ({ platform, token }) =>
      token === (platform === 'apns' ? value.toLowerCase() : value),
  id: (value, journal) => {
    const own = new Set(journal.of(value));
    return (entry) => own.has(entry);
  },
  accepted: (value) =>
    value === 'true' || value === 'false' ? ({ accepted }) => String(accepted) === value : '"true" or "false"',
};

/**
 * The entries that a `GET /journal` asks for, by all of its parameters.
 *
 * @throws InputError for a parameter that there is not, or with a bad value.
 */
function selectEntries(journal: Pick<SandboxJournal, 'all' | 'of'>, query: URLSearchParams): readonly JournalEntry[] {
  const faults: Fault[] = [];
  const selects: Select[] = [];
  for (const [name, value] of query) {
    const parameter = Object.hasOwn(PARAMETERS, name) ? PARAMETERS[name] : undefined;
    const select = parameter?.(value, journal) ?? `one of ${Object.keys(PARAMETERS).join(', ')}`;
    if (typeof select === 'function') selects.push(select);
    else if (parameter) faults.push({ path: name, expected: select, found: JSON.stringify(value.slice(0, 80)) });
    else faults.push({ path: '', expected: `${select} as a parameter`, found: JSON.stringify(name.slice(0, 40)) });
  }
  if (faults.length > 0) throw new InputError('the query', faults);
  return journal.all.filter((entry) => selects.every((select) => select(entry)));
}

function instantOf(text: string): number | undefined {
  if (/^\d{1,15}(\.\d{1,9})?$/.test(text)) return Number(text);
  const upper = text.toUpperCase();
  return dateTime.safeParse(upper).success ? Date.parse(upper) : undefined;
}
