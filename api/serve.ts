import { createServer as createTlsServer } from 'node:https';
import type { IncomingMessage, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serve } from '@hono/node-server';
import { API_VARIABLES, unknownText, unknownVariables, type VariableDoc } from '../src/config/variables.ts';
import { printable } from '../src/domain/faults.ts';
import { within } from '../src/domain/time.ts';
import { listenError } from '../src/environment/listening.ts';
import { createLog, type Logger } from '../src/observe/log.ts';
import { startTracing } from '../src/observe/tracing-sdk.ts';
import { createStopSignals, helpItem } from '../src/terminal/command.ts';
import { columnsOf } from '../src/terminal/text.ts';
import type { Token } from './tokens.ts';

/** What the HTTP servers of pushpacer share: where they listen, how they stop, and what their `--help` says. */

export interface Served {
  readonly url: string;
  /** Takes no more requests, and resolves when the requests under way are answered. */
  close(): Promise<void>;
}

/** A server that needs Redis. */
export interface Program extends Served {
  /** Resolves when the server can do its work, because Redis has answered. Never rejects. */
  readonly ready: Promise<void>;
}

export interface Address {
  readonly host: string;
  readonly port: number;
  /** Certificate and key, as PEM. Absent: plain HTTP. */
  readonly tls?: { readonly cert: string; readonly key: string };
}

export const API_IN_TRACES = 'pushpacer-api';
/** How long requests under way have to end when the server stops. */
const GRACE_MS = 10_000;
/** A connection is closed if nothing was sent or received for this time. Streams of outcomes send something every 15 s. */
const SILENCE_MS = 120_000;

/**
 * Opens a server. Rejects with InputError if it cannot listen there.
 *
 * @param name for the log
 * @param variables the beginning of the variables' names: `API` for API_HOST and API_PORT
 */
export async function listen(
  { name, variables }: { readonly name: string; readonly variables: string },
  fetch: Parameters<typeof serve>[0]['fetch'],
  { host, port, tls }: Address,
  log: Pick<Logger, 'warn'>,
): Promise<Served> {
  if (!isLoopback(host) && tls === undefined) {
    log.warn({ host }, `the ${name} listens beyond this machine without TLS: put a proxy with TLS before it`);
  }
  const secure = tls && { createServer: createTlsServer, serverOptions: tls };
  const server = await new Promise<Server>((resolve, reject) => {
    const opened = serve({ fetch, hostname: host, port, ...secure }, () => resolve(opened)) as Server;
    // A stream may last for hours, so a connection is closed only if it is silent.
    opened.requestTimeout = 0;
    opened.setTimeout(SILENCE_MS);
    opened.once('error', reject);
  }).catch((error: unknown): never => {
    throw listenError(error, { host: [`${variables}_HOST`, host], port: [`${variables}_PORT`, port] });
  });
  const { address, family, port: taken } = server.address() as AddressInfo;
  return {
    url: `${tls ? 'https' : 'http'}://${family === 'IPv6' ? `[${address}]` : address}:${taken}`,
    async close() {
      await within(new Promise((resolve) => server.close(resolve)), GRACE_MS);
      server.closeAllConnections();
    },
  };
}

/** What the requests of the API have: their token, and how much of its share they may take (access.ts). */
export interface ApiEnv {
  Bindings: Bindings;
  Variables: {
    /** The token as it is now. To be asked after the last wait, before an act. Throws if it was revoked, or lost the scope. */
    acting: () => Token;
    /** As `acting`, but undefined instead of a throw. */
    mayStill: () => Token | undefined;
    /** Takes so many bytes of the token's share, until the request is answered. False if that would be too much. */
    hold: (bytes: number) => boolean;
    /** What the token may have at a time: dear reads, streams of outcomes, bytes of bodies. */
    shares: Readonly<Record<'dear' | 'readers' | 'bytes', Share>>;
  };
}

/** A part of what one token may have at a time. */
export interface Share {
  /** False if that would be more than the token may have. */
  take(amount: number): boolean;
  give(amount: number): void;
}

/** What @hono/node-server gives in addition to the request. */
export interface Bindings {
  readonly incoming?: IncomingMessage;
}

/** The address of the peer; if there is a proxy, the proxy's. */
export function peerOf({ env }: { readonly env: Bindings }): string {
  return env.incoming?.socket.remoteAddress ?? 'unknown';
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host.startsWith('127.');
}

/**
 * Starts a program, and stops it at SIGTERM or SIGINT, or when the process that started it has ended. A later signal, after a
 * second, ends it at once.
 *
 * @param service the program's name in traces; undefined if the program makes no traces
 */
export async function runUntilSignal(
  level: Parameters<typeof createLog>[0],
  start: (log: Logger) => Promise<Pick<Served, 'close'>>,
  service?: string,
): Promise<void> {
  const log = createLog(level);
  for (const unknown of unknownVariables(process.env)) {
    log.warn({ variable: printable(unknown.name), meant: unknown.meant }, printable(unknownText(unknown)));
  }
  const warn = (message: string): void => log.warn(message);
  const endTracing = service === undefined ? undefined : await startTracing(process.env, service, warn);
  const served = await start(log).catch(async (error: unknown) => {
    await endTracing?.();
    throw error;
  });
  await new Promise<void>((resolve) => {
    const signals = createStopSignals();
    for (const name of ['SIGTERM', 'SIGINT'] as const) {
      process.on(name, () => {
        const signal = signals();
        if (signal === 'later') process.exit(1);
        if (signal !== 'first') return;
        log.info({ why: name }, 'stopping: requests under way are finished');
        void served
          .close()
          .then(() => endTracing?.())
          .then(() => {
            log.info('stopped');
            resolve();
          });
      });
    }
    process.once('disconnect', () => process.exit(0)); // the process that started this one has ended
  });
  process.exit(0);
}

/** The variables of a program, as text for its `--help`. */
export function variablesHelp(variables: readonly VariableDoc[] = API_VARIABLES): string {
  const rows = variables.map(({ name, default: value, meaning }) =>
    helpItem(name, `${meaning}${value === undefined ? '' : ` (${value})`}`, 24, columnsOf() ?? Infinity),
  );
  return `\nVariables (defaults in brackets):\n${rows.join('\n').replaceAll('`', '')}`;
}
