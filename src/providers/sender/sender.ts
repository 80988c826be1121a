import type { SecureContext } from 'node:tls';
import type { Platform } from '../../notification/notification.ts';
import { errorChain, redact } from '../../notification/redact.ts';
import type { Credential } from '../credential.ts';
import type { Permit, Reach, Encoded, Prepared, Provider, Push, Reply, Reserved, SendOptions } from '../provider.ts';
import { lostReply, transportReply } from '../replies.ts';
import { exchange, type Exchange, type SendRequest } from './connection.ts';
import { createPool, StreamPermit } from './pool.ts';
import { type Endpoint, unsent, type SendResult, type Unsent, type UnsentCode, type Answered } from './result.ts';

/** What differs between push services. */
export interface PushService {
  readonly platform: Platform;
  readonly sender: Sender;
  readonly credential: Credential;
  readonly prepare: (push: Push) => Prepared;
  /** Reads an answer by the provider's tables of answers. */
  readonly readAnswer: (answer: Answered, push: Push) => Reply;
  /** Whether the reply says that the credentials have expired: then nothing was processed, and new credentials may succeed. */
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

  /** The result of `work`, or the reply `cancelled` if `abort` is called first. */
  function unlessAborted<T>(work: Promise<T>): Promise<T | Reply> {
    const { promise, resolve, reject } = Promise.withResolvers<T | Reply>();
    waiting.add(resolve);
    void work.then(resolve, reject).finally(() => waiting.delete(resolve));
    return promise;
  }

  async function sendWith(authorization: string, encoded: Encoded, options: SendOptions): Promise<Reply> {
    const { push, path, headers, body } = encoded;
    const request = { headers: { ':method': 'POST', ':path': path, ...headers, authorization }, body };
    const result = await sender.send(request, options);
    if (result.kind !== 'answered') return lostReply(result, push);
    options.onStatus?.(result.status);
    return readAnswer(result, push);
  }

  async function sendOrRepeat(encoded: Encoded, options: SendOptions): Promise<Reply> {
    const authorization = credential.current() ?? (await unlessAborted(credential.obtain()));
    if (typeof authorization !== 'string') {
      options.permit?.release();
      return authorization;
    }
    const reply = await sendWith(authorization, encoded, options);
    if (!isExpired(reply)) return reply;
    const renewed = await unlessAborted(renew(authorization));
    if (typeof renewed !== 'string') return renewed ?? reply;
    return sendWith(renewed, encoded, { ...options, permit: undefined });
  }

  /** New credentials in place of the expired ones; undefined if there are none yet. */
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
        return await sendOrRepeat(encoded, options);
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

/**
 * Carries requests to one HTTP/2 server, over as many connections as the load and the server's SETTINGS need. It never repeats
 * a request that may have been processed, and never throws: every request ends in a SendResult.
 */
export interface Sender {
  /** Sets a stream aside: at once, or as soon as a stream is free. Unsent if no connection can be made. */
  reserve(): Permit | Promise<Permit | Unsent>;
  send(request: SendRequest, options?: SendOptions): Promise<SendResult>;
  /** Resolves when the first connection is open, or could not be opened. */
  connect(): Promise<void>;
  /** Whether the server can be reached; undefined if no connection was tried, or the sender is closed. Sends nothing. */
  reach(): Reach | undefined;
  /** Ends all requests that wait (`cancelled`) or are under way (`aborted`). */
  abort(): void;
  /** Takes no more requests. Resolves when requests under way have ended and the connections are closed. */
  close(): Promise<void>;
}

export interface SenderOptions extends SenderTuning {
  readonly endpoint: Endpoint;
  /** The trusted certificates; the system's by default. */
  readonly secureContext?: SecureContext | undefined;
  /** Offers HTTP/1.1 too: a server that chooses it has no HTTP/2, and the result is `no-http2`. Default: false. */
  readonly offersHttp1?: boolean | undefined;
}

/** The options that a sender and every provider have. */
export interface SenderTuning {
  /** A request without an answer ends as `timeout` after this. Default: 10,000 ms. */
  readonly requestTimeoutMs?: number | undefined;
  /** How long connecting may take. Default: 5,000 ms. */
  readonly connectTimeoutMs?: number | undefined;
  /** How many connections stay open without load, so that one is open while another is replaced. Default: 2. */
  readonly minConnections?: number | undefined;
  /** The most connections under load. Default: 16. */
  readonly maxConnections?: number | undefined;
  /** How often each connection is checked with a PING. Default: 30,000 ms. */
  readonly pingEveryMs?: number | undefined;
  /** A number from 0 to 1, for the waits between two tries to connect. */
  readonly random?: (() => number) | undefined;
}

/** A request that the server refused without processing it is sent again on another stream, at most this often. */
const MAX_REFUSALS = 3;

export function createSender({
  requestTimeoutMs = 10_000,
  connectTimeoutMs = 5_000,
  pingEveryMs = 30_000,
  minConnections = 2,
  maxConnections = 16,
  random = Math.random,
  ...target
}: SenderOptions): Sender {
  const pool = createPool({ ...target, connectTimeoutMs, pingEveryMs, minConnections, maxConnections, random });
  const underWay = new Set<Exchange>();
  let isClosed = false;

  /** Why a request that no connection has taken yet must not be sent any more. */
  function whyStop(sendBy: number): UnsentCode | undefined {
    if (isClosed) return 'closed';
    return performance.now() > sendBy ? 'too-late' : undefined;
  }

  return {
    reserve: () => pool.reserve(),
    async send(request, { permit, sendBy = Infinity } = {}) {
      let connection = permit instanceof StreamPermit ? permit.use() : undefined;
      if (connection === undefined) permit?.release(); // the permit may be from an earlier sender, which this one has replaced
      for (let refusals = 0; ;) {
        const stop = whyStop(sendBy);
        if (stop !== undefined) {
          connection?.giveBack();
          return unsent(stop);
        }
        const sent = connection && exchange(connection, request, requestTimeoutMs);
        if (sent === undefined) {
          // There was no permit, or its connection has ended.
          const found = await pool.reserve(sendBy);
          if (!(found instanceof StreamPermit)) return found;
          connection = found.use();
          continue;
        }
        underWay.add(sent);
        const result = await sent.result;
        underWay.delete(sent);
        const isRefused = result.kind === 'unsent' && result.code === 'refused-stream';
        if (!isRefused || ++refusals > MAX_REFUSALS) return result;
        connection = undefined;
      }
    },
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
