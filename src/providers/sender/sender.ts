import type { SecureContext } from 'node:tls';
import type { Platform } from '../../domain/notification.ts';
import { errorChain, redact } from '../../domain/redact.ts';
import type { Credential } from '../credential.ts';
import type { Permit, Reach, Encoded, Prepared, Provider, Push, Reply, Reserved, SendOptions } from '../provider.ts';
import { lostReply, transportReply } from '../replies.ts';
import { exchange, type Exchange, type SendRequest } from './connection.ts';
import { createPool, StreamPermit } from './pool.ts';
import { type Endpoint, unsent, type SendResult, type Unsent, type UnsentCode, type Answered } from './result.ts';

export interface SenderOptions {
  readonly endpoint: Endpoint;
  /** Trusted certificates; the system's by default. */
  readonly secureContext?: SecureContext | undefined;
  /** Offers HTTP/1.1 too, so that a server without HTTP/2 shows it: `no-http2`. Default: false. */
  readonly offersHttp1?: boolean | undefined;
  /** A request without an answer ends as `timeout` after this. Default: 10,000 ms. */
  readonly requestTimeoutMs?: number | undefined;
  /** How long connecting may take. Default: 5,000 ms. */
  readonly connectTimeoutMs?: number | undefined;
  /** Connections that stay open without load, so that one carries on while another is replaced. Default: 2. */
  readonly minConnections?: number | undefined;
  /** The most connections under load. Default: 16. */
  readonly maxConnections?: number | undefined;
  /** How often each connection is checked with a PING. Default: 30,000 ms. */
  readonly pingEveryMs?: number | undefined;
  /** A number from 0 to 1, for the waits between two tries to connect. */
  readonly random?: (() => number) | undefined;
}

/** When a request may be sent. */
export interface When {
  /** From `reserve`; the send uses it up. Without one, the request waits for a stream. */
  readonly permit?: Permit | undefined;
  /** A request that no connection has taken by then (`performance.now()`) is not sent. Default: Infinity. */
  readonly sendBy?: number | undefined;
}

/**
 * Carries requests to one HTTP/2 server, over as many sessions as the load and the server's SETTINGS need. It never repeats a
 * request that may have been processed, and never throws: every request ends in a SendResult.
 */
export interface Sender {
  /** Sets a stream aside: at once, or as soon as one is free. Unsent if no connection can be made. */
  reserve(): Permit | Promise<Permit | Unsent>;
  send(request: SendRequest, when?: When): Promise<SendResult>;
  /** Resolves when the first connection is open, or could not be made. */
  connect(): Promise<void>;
  /** Whether the server can be reached; undefined if that was not tried, or the sender is closed. Asks nobody. */
  reach(): Reach | undefined;
  /** Ends all requests that wait or are under way: `cancelled` or `aborted`. */
  abort(): void;
  /** Takes no more requests; resolves when those under way have ended and the connections are closed. */
  close(): Promise<void>;
}

const PING_TIMEOUT_MS = 5_000;
/** How often a request that the server refused without looking at it is sent again, on another stream. */
const MAX_REFUSALS = 3;

export function createSender(options: SenderOptions): Sender {
  const { requestTimeoutMs = 10_000, connectTimeoutMs = 5_000, pingEveryMs = 30_000 } = options;
  const pool = createPool({
    endpoint: options.endpoint,
    secureContext: options.secureContext,
    offersHttp1: options.offersHttp1,
    connectTimeoutMs,
    pingEveryMs,
    pingTimeoutMs: PING_TIMEOUT_MS,
    minConnections: options.minConnections ?? 2,
    maxConnections: options.maxConnections ?? 16,
    random: options.random ?? Math.random,
  });
  const underWay = new Set<Exchange>();
  let isClosed = false;

  async function send(request: SendRequest, { permit, sendBy = Infinity }: When = {}): Promise<SendResult> {
    let held = permit instanceof StreamPermit ? permit : undefined;
    if (held === undefined) permit?.release(); // of another sender, which this one has replaced
    let refusals = 0;
    for (;;) {
      const connection = held?.use();
      const stop = whyStop(sendBy);
      if (stop !== undefined) {
        connection?.giveBack();
        return unsent(stop);
      }
      const sent = connection && exchange(connection, request, requestTimeoutMs);
      if (sent === undefined) {
        // There was no permit, or its connection has ended.
        const reserved = await pool.reserve(sendBy);
        if (!(reserved instanceof StreamPermit)) return reserved;
        held = reserved;
        continue;
      }
      underWay.add(sent);
      const result = await sent.result;
      underWay.delete(sent);
      const isRefused = result.kind === 'unsent' && result.code === 'refused-stream';
      if (!isRefused || ++refusals > MAX_REFUSALS) return result;
    }
  }

  /** Why a request that no connection has taken yet must not be sent any more. */
  function whyStop(sendBy: number): UnsentCode | undefined {
    if (isClosed) return 'closed';
    return performance.now() > sendBy ? 'too-late' : undefined;
  }

  return {
    reserve: () => pool.reserve(),
    send,
    connect: () => pool.connect(),
    reach: () => pool.reach(),
    abort() {
      pool.giveUpWaiting(unsent('cancelled'));
      for (const each of underWay) each.abort();
    },
    async close() {
      isClosed = true;
      pool.end();
      await Promise.allSettled([...underWay].map(({ result }) => result));
      await pool.close();
    },
  };
}

/** What differs between push services. */
export interface PushService {
  readonly platform: Platform;
  readonly sender: Sender;
  readonly credential: Credential;
  readonly prepare: (push: Push) => Prepared;
  /** The table of answers. */
  readonly readAnswer: (answer: Answered, push: Push) => Reply;
  /** Whether the provider says that the credentials have expired: nothing was processed, and new ones may succeed. */
  readonly isExpired: (reply: Reply) => boolean;
}

/** A push service over HTTP/2, whose requests carry an `authorization` header. */
export function createHttp2Provider(service: PushService): Provider {
  const { platform, sender, credential, prepare, readAnswer, isExpired } = service;
  let underWay = 0;
  /** Called when the last send under way has ended; `close` waits for it. */
  let onIdle: () => void = () => undefined;
  /** The sends that wait for credentials; `abort` answers them. */
  const waiting = new Set<(reply: Reply) => void>();
  let isClosed = false;
  let closing: Promise<void> | undefined;

  /** The result of `work`, or the reply `cancelled` if `abort` comes first. */
  function unlessAborted<T>(work: Promise<T>): Promise<T | Reply> {
    const { promise, resolve, reject } = Promise.withResolvers<T | Reply>();
    waiting.add(resolve);
    void work.then(resolve, reject).finally(() => waiting.delete(resolve));
    return promise;
  }

  function sendOnce({ path, headers, body }: Encoded, authorization: string, when: SendOptions): Promise<SendResult> {
    const request = { headers: { ':method': 'POST', ':path': path, ...headers, authorization }, body };
    return sender.send(request, when);
  }

  function replyOf(result: SendResult, push: Push): Reply {
    return result.kind === 'answered' ? readAnswer(result, push) : lostReply(result, push);
  }

  /** Sends once more if there are credentials other than the expired ones. */
  async function sendAgain(encoded: Encoded, options: SendOptions, expired: string, reply: Reply): Promise<Reply> {
    const renewed = await unlessAborted(renew(expired));
    if (typeof renewed !== 'string') return renewed ?? reply;
    return replyOf(await sendOnce(encoded, renewed, { ...options, permit: undefined }), encoded.push);
  }

  /** New credentials in place of the expired ones; undefined if there are none. */
  async function renew(expired: string): Promise<string | Reply | undefined> {
    return (await credential.replace(expired)) ? credential.obtain() : undefined;
  }

  async function reserveSlowly(): Promise<Reserved> {
    const authorization = await unlessAborted(credential.obtain());
    if (typeof authorization !== 'string') return { kind: 'none', reply: authorization };
    return reserved(await sender.reserve());
  }

  async function close(): Promise<void> {
    isClosed = true;
    if (underWay > 0) await new Promise<void>((resolve) => (onIdle = resolve));
    await sender.close();
  }

  return {
    platform,
    prepare,
    reserve() {
      if (isClosed) return { kind: 'none', reply: transportReply('closed') };
      if (credential.current() === undefined) return reserveSlowly();
      const found = sender.reserve();
      return found instanceof Promise ? found.then(reserved) : reserved(found);
    },
    async send(encoded, options = {}) {
      if (isClosed) {
        options.permit?.release();
        return transportReply('closed');
      }
      underWay += 1;
      try {
        const authorization = credential.current() ?? (await unlessAborted(credential.obtain()));
        if (typeof authorization !== 'string') {
          options.permit?.release();
          return authorization;
        }
        const reply = replyOf(await sendOnce(encoded, authorization, options), encoded.push);
        return isExpired(reply) ? await sendAgain(encoded, options, authorization, reply) : reply;
      } catch (error) {
        options.permit?.release();
        return transportReply('unexpected-error', redact(errorChain(error), encoded.push.notification));
      } finally {
        underWay -= 1;
        if (underWay === 0) onIdle();
      }
    },
    async connect() {
      if (!isClosed) await Promise.all([credential.current() ?? credential.obtain(), sender.connect()]);
    },
    reach: () => (isClosed ? [] : [sender.reach(), credential.reach?.()].filter((found) => found !== undefined)),
    abort() {
      for (const resolve of waiting) resolve(transportReply('cancelled'));
      sender.abort();
    },
    close: () => (closing ??= close()),
  };
}

function reserved(found: Permit | Unsent): Reserved {
  return 'release' in found ? { kind: 'permit', permit: found } : { kind: 'none', reply: lostReply(found, undefined) };
}
