import { once } from 'node:events';
import { connect as connectPlain, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { printable } from '../domain/faults.ts';
import { within } from '../domain/time.ts';
import { isForbidden, isNotNow } from './deadline.ts';
import { formatEndpoint, type Endpoint } from './target.ts';

/**
 * Why a Redis cannot be used.
 * - `away`: it does not answer, or the connection broke.
 * - `not-now`: it says that it cannot work now (`OOM`, `READONLY`).
 * - `credentials`: it refuses the user or the password, or wants one.
 * - `permission`: it knows the user, and forbids it a command or a key (`NOPERM`).
 * - `not-redis`: a server of another kind answers at that port.
 * - `tls`: only one of the two sides speaks TLS, or the certificate is not trusted.
 *
 * The first two pass by themselves. The others stay until an operator corrects the URL or the server.
 */
export type RedisTrouble = 'away' | 'not-now' | 'credentials' | 'permission' | 'not-redis' | 'tls';

/** Whether waiting does not help, because an operator has to correct something. */
export function isLasting(trouble: RedisTrouble): boolean {
  return trouble !== 'away' && trouble !== 'not-now';
}

/** What a look at the port has found. It is the cause of a RedisAwayError. */
export class WrongServerError extends Error {
  override readonly name = 'WrongServerError';
  readonly trouble: 'not-redis' | 'tls';

  constructor(trouble: 'not-redis' | 'tls', message: string) {
    super(message);
    this.trouble = trouble;
  }
}

/** Redis's words if it refuses a client, and ioredis's words if a Sentinel does (`invalid password`). */
const REFUSES: readonly (readonly [pattern: RegExp, reason: string])[] = [
  [/\bWRONGPASS\b|\binvalid password\b/, 'WRONGPASS: the user or the password is wrong'],
  [/\bNOAUTH\b/, 'NOAUTH: it asks for a password, and was given none'],
  [/\bDENIED\b/, 'DENIED: it is in protected mode, and has no password'],
];

/** The reason why Redis refuses this client, in words for an operator: Redis's own texts explain its protocol. */
export function refusalReason(error: unknown): string | undefined {
  const messages = messagesOf(error).join('\n');
  return REFUSES.find(([pattern]) => pattern.test(messages))?.[1];
}

/** What Redis forbids the user, in words for an operator; undefined if the error says something else. */
export function forbiddenReason(error: unknown): string | undefined {
  const text = messagesOf(error).find(isForbidden);
  if (text === undefined) return undefined;
  const command = /to run the '([^']+)'/.exec(text)?.[1];
  if (command !== undefined) return `NOPERM: the user may not run ${command}`;
  if (/\bkeys?\b/.test(text)) return 'NOPERM: the user may not use a key; its patterns must fit QUEUE_PREFIX';
  return 'NOPERM: the user may not run a command of a script';
}

/** OpenSSL's words if the server does not speak TLS; Node's codes for a certificate that is not trusted. */
const NO_TLS =
  /wrong version number|packet length too long|record layer failure|ERR_SSL_(?:WRONG_VERSION|PACKET_LENGTH)/i;
const UNTRUSTED =
  /\b(SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT|UNABLE_TO_\w+|CERT_\w+|ERR_TLS_CERT_ALTNAME_INVALID)\b/;

/** What kind of trouble an error shows, without a look at the port. */
export function troubleOf(error: unknown): RedisTrouble {
  if (error instanceof WrongServerError) return error.trouble;
  if (refusalReason(error) !== undefined) return 'credentials';
  if (forbiddenReason(error) !== undefined) return 'permission';
  if (isNotNow(error)) return 'not-now';
  const messages = messagesOf(error).join('\n');
  if (UNREADABLE.test(messages)) return 'not-redis';
  return NO_TLS.test(messages) || UNTRUSTED.test(messages) ? 'tls' : 'away';
}

/* What ioredis may change at any time: the texts of its errors, which have no class or code, and the fields that it attaches. */

/** ioredis's words for an answer that does not begin as an answer of Redis does. */
const UNREADABLE = /\bUnknown RESP type/;

/**
 * Whether there was no answer in time, or a node's socket closed while the status (in a cluster, of the whole cluster) was
 * `ready`.
 */
export function wasNotCarried(cause: unknown): boolean {
  if (!(cause instanceof Error)) return false;
  return NO_ANSWER.has(cause.message) || cause.message.startsWith("Stream isn't writeable");
}

/** The last text is for a pipeline that was answered in part. */
const NO_ANSWER = new Set(['Command timed out', 'Connection is closed.', 'Command aborted due to connection close']);

/** If a transaction failed, the error of the command that made it fail. */
export function causeOf(error: unknown): unknown {
  const [first] = (error as { readonly previousErrors?: readonly unknown[] } | undefined)?.previousErrors ?? [];
  return first ?? error;
}

/** The messages of an error and of its `lastNodeError`, in which a cluster's client keeps what the last node said. */
function messagesOf(error: unknown): string[] {
  const errors = error instanceof AggregateError ? error.errors : [error];
  return errors.flatMap((each: unknown) => {
    if (!(each instanceof Error)) return [];
    const { lastNodeError } = each as { readonly lastNodeError?: unknown };
    const code = (each as { readonly code?: unknown }).code;
    return [typeof code === 'string' ? `${each.message} (${code})` : each.message, ...messagesOf(lastNodeError)];
  });
}

/** Whether the command of the error was a script. */
export function isScript(error: Error): boolean {
  const { command } = error as { readonly command?: { readonly name: string } };
  return command?.name === 'evalsha' || command?.name === 'eval';
}

/** An error without the command that ioredis attaches: a log would print its passwords, tokens and whole notifications. */
export function withoutCommand(error: unknown, seen = new Set<unknown>()): unknown {
  if (!(error instanceof Error) || seen.has(error)) return error; // `seen`: all commands of a transaction may share one error
  seen.add(error);
  Reflect.deleteProperty(error, 'command');
  const { previousErrors = [], lastNodeError } = error as { previousErrors?: unknown[]; lastNodeError?: unknown };
  for (const earlier of [...previousErrors, lastNodeError]) withoutCommand(earlier, seen);
  return error;
}

/** An error's text for an operator. */
export function reasonOf(cause: unknown): string {
  if (cause instanceof AggregateError) return cause.errors.map(reasonOf).join(', ');
  if (!(cause instanceof Error) || cause.name === 'MaxRetriesPerRequestError') return 'the connection was closed';
  const { lastNodeError } = cause as { readonly lastNodeError?: unknown };
  if (lastNodeError instanceof Error) return `${cause.message.replace(/\.$/, '')}: ${reasonOf(lastNodeError)}`;
  if (cause.message.includes('DB index is out of range'))
    return `${cause.message}: it has no database of this number; correct the number at the end of the URL, or leave it out`;
  return cause.message;
}

/** How long a look may take in all, in milliseconds. */
const LOOK_MS = 1_000;
/** How many bytes of an answer are read, and how many characters of its text are shown. */
const MOST_BYTES = 512;
const MOST_SHOWN = 60;

/** What the first bytes of the answer show, if they are understood. */
type Answer = 'redis' | 'tls' | 'nothing' | { readonly text: string };

/**
 * Finds out what kind of server answers, since the client only says that it does not understand the answer. Sends a PING
 * without credentials. Undefined if the server may be a Redis that the URL fits. Never rejects.
 */
export async function lookAt(places: readonly Endpoint[], error: unknown): Promise<WrongServerError | undefined> {
  const [place] = places;
  return place === undefined ? undefined : look(place, error).catch(() => undefined);
}

async function look(place: Endpoint, error: unknown): Promise<WrongServerError | undefined> {
  const where = formatEndpoint(place);
  const told = messagesOf(error)
    .map((message) => UNTRUSTED.exec(message)?.[1])
    .find((code) => code !== undefined);
  const answer = told === undefined ? await answerOf(place) : 'tls';
  // The client of a cluster does not report why it could not connect to a node.
  const isSilent = place.isTls && (answer === 'tls' || answer === 'nothing');
  const untrusted = told ?? (isSilent ? await certificateFault(place) : undefined);
  if (untrusted !== undefined) {
    const advice = 'NODE_EXTRA_CA_CERTS may name the file of a CA to trust';
    return new WrongServerError('tls', `the certificate of ${where} is not trusted (${untrusted}); ${advice}`);
  }
  if (typeof answer === 'object') {
    return new WrongServerError(
      'not-redis',
      `${where} is not a Redis server (it answered ${JSON.stringify(answer.text)})`,
    );
  }
  if (answer === 'redis' && place.isTls) {
    return new WrongServerError('tls', `${where} does not speak TLS: the URL begins with redis://, not rediss://`);
  }
  if (!place.isTls && (answer === 'tls' || (answer === 'nothing' && (await speaksTls(place))))) {
    return new WrongServerError('tls', `${where} speaks TLS: the URL begins with rediss://, not redis://`);
  }
  return undefined;
}

/** The answer to a PING without TLS. */
async function answerOf({ host, port }: Endpoint): Promise<Answer> {
  const socket = connectPlain({ host, port });
  const bytes = await bounded(socket, async () => {
    await once(socket, 'connect');
    socket.write('*1\r\n$4\r\nPING\r\n');
    const [data] = (await once(socket, 'data')) as [Buffer];
    return data.subarray(0, MOST_BYTES);
  });
  if (bytes === undefined) return 'nothing';
  if (bytes[0] === TLS_ALERT || bytes[0] === TLS_HANDSHAKE) return 'tls';
  const text = bytes.toString('latin1');
  if (/^(\+PONG|-[A-Z]+ )/.test(text)) return 'redis';
  return { text: printable((text.split(/[\r\n]/, 1)[0] ?? '').slice(0, MOST_SHOWN)) };
}

/** A TLS server's answer to a text that is not TLS begins with one of these bytes. */
const TLS_ALERT = 0x15;
const TLS_HANDSHAKE = 0x16;

async function speaksTls({ host, port }: Endpoint): Promise<boolean> {
  // Nothing is sent over this connection, so it does not matter who the server is.
  const socket = connectTls({ host, port, rejectUnauthorized: false });
  return (await bounded(socket, () => once(socket, 'secureConnect'))) !== undefined;
}

/** Node's code for why the certificate is not trusted. */
async function certificateFault({ host, port }: Endpoint): Promise<string | undefined> {
  const socket = connectTls({ host, port });
  const found = new Promise<string | undefined>((resolve) => {
    socket.once('secureConnect', () => resolve(undefined)).once('close', () => resolve(undefined));
    socket.once('error', ({ code }: NodeJS.ErrnoException) => resolve(code));
  });
  try {
    return UNTRUSTED.exec((await within(found, LOOK_MS / 2)) ?? '')?.[1];
  } finally {
    socket.on('error', () => undefined);
    socket.destroy();
  }
}

/** What `work` resolves with; undefined where the socket fails, ends, or takes too long. */
async function bounded<T>(socket: Socket, work: () => Promise<T>): Promise<T | undefined> {
  const { promise: ended, resolve } = Promise.withResolvers<undefined>();
  const end = (): void => resolve(undefined);
  socket.once('error', end).once('close', end);
  try {
    return await within(Promise.race([work().catch(() => undefined), ended]), LOOK_MS / 2);
  } finally {
    socket.off('error', end).on('error', () => undefined);
    socket.destroy();
  }
}
