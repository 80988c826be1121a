import type { ClientHttp2Session } from 'node:http2';
import { isIP } from 'node:net';
import { connect } from 'node:tls';
import type { SecureContext, TLSSocket } from 'node:tls';
import { Provider } from 'apn';
import type { Notification } from 'apn';
import { correctClient } from './apns-client.ts';
import { WARM_UP_TOKEN, warmUpMessage } from './apns-message.ts';
import { clientOf } from './apns-types.ts';
import type { ApnsClient, ApnsFailure, ProviderToken } from './apns-types.ts';
import type { Endpoint } from './endpoint.ts';
import { transportReply } from './transport-replies.ts';
import { tryOnce } from './wire.ts';

export interface LinkOptions {
  readonly key: string;
  readonly keyId: string;
  readonly teamId: string;
  readonly topic: string;
  readonly endpoint: Endpoint;
  readonly secureContext: SecureContext | undefined;
  readonly requestTimeoutMs: number;
  /** How often a connection that was warmed is looked after. */
  readonly keepWarmMs: number;
}

/** A lost connection is replaced at once, but not more often than this: a server may be going down. */
const MIN_REWARM_MS = 1_000;
/** Beyond this, a connection that does not answer a ping is taken for dead (a NAT forgot it, a cable was pulled). */
const PING_TIMEOUT_MS = 5_000;
/** The client's own time limit sends a request that waited for the connection, and cancels it then: ours comes first. */
const TIMEOUT_MARGIN_MS = 1_000;
/** The client's own ping only writes a debug line; ours replaces it. Node's longest timer. */
const NEVER_MS = 2 ** 31 - 1;

/** One connection to APNs, opened ahead of need, looked after, and drained when it is closed. */
export class ApnsLink {
  readonly #options: LinkOptions;
  readonly #provider: Provider;
  readonly #client: ApnsClient;
  readonly #sessions = new Set<ClientHttp2Session>();
  readonly #sockets = new Set<TLSSocket>();
  #keeper: NodeJS.Timeout | undefined;
  #warming: Promise<void> | undefined;
  #warmedAtMs = -Infinity;
  #isClosed = false;

  constructor(options: LinkOptions) {
    const { key, keyId, teamId, endpoint, requestTimeoutMs } = options;
    // What the client does not know it hands through to http2.connect.
    const http2Options = {
      // APNs allows one stream until it has accepted a token; a burst on a new connection would run into refusals.
      peerMaxConcurrentStreams: 1,
      createConnection: () => this.#openSocket(),
    };
    this.#options = options;
    this.#provider = new Provider({
      token: { key, keyId, teamId },
      address: endpoint.host.includes(':') ? `[${endpoint.host}]` : endpoint.host,
      requestTimeout: requestTimeoutMs + TIMEOUT_MARGIN_MS,
      connectionRetryLimit: 0,
      heartBeat: NEVER_MS,
      ...http2Options,
    });
    this.#client = clientOf(this.#provider);
    correctClient(this.#client, (session) => {
      this.#watch(session);
    });
  }

  get token(): ProviderToken {
    return this.#client.config.token;
  }

  /** Links of one provider share a token: APNs counts each new one as an update, and allows one in 20 minutes. */
  set token(token: ProviderToken) {
    this.#client.config.token = token;
  }

  /** Whether a send would find an open connection. */
  get isReady(): boolean {
    const { session } = this.#client;
    return session !== undefined && !session.closed && !session.destroyed && !session.connecting;
  }

  /** Nothing where APNs took it, otherwise what the client says about it. */
  async send(message: Notification, token: string): Promise<ApnsFailure | undefined> {
    const { failed } = await this.#provider.send(message, token);
    return failed[0] as ApnsFailure | undefined;
  }

  /** Connects, and has the first stream's limit lifted. From then on the connection is kept so. Never throws. */
  warm(): Promise<void> {
    if (this.#isClosed) return Promise.resolve();
    this.#keeper ??= setInterval(() => {
      this.#lookAfter();
    }, this.#options.keepWarmMs).unref();
    if (this.isReady) return Promise.resolve();
    this.#warming ??= this.#warmUp().finally(() => (this.#warming = undefined));
    return this.#warming;
  }

  /** Takes no more sends, waits for those under way, and then closes. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#keeper);
    await this.#client.shutdown();
    for (const session of this.#sessions) {
      if (session.connecting) session.destroy();
      else session.close();
    }
    // A session that closes waits for its peer to hang up, and a peer that is gone never does.
    const timer = setTimeout(() => {
      for (const socket of this.#sockets) socket.destroy();
    }, this.#options.requestTimeoutMs);
    await Promise.all([...this.#sockets].map((socket) => new Promise((resolve) => socket.once('close', resolve))));
    clearTimeout(timer);
  }

  #openSocket(): TLSSocket {
    const { endpoint, secureContext } = this.#options;
    const socket = connect({
      ...endpoint,
      ALPNProtocols: ['h2'],
      ...(isIP(endpoint.host) === 0 ? { servername: endpoint.host } : {}),
      ...(secureContext === undefined ? {} : { secureContext }),
    });
    this.#sockets.add(socket);
    return socket.once('close', () => this.#sockets.delete(socket));
  }

  async #warmUp(): Promise<void> {
    this.#warmedAtMs = performance.now();
    const send = async () => {
      await this.send(warmUpMessage(this.#options.topic), WARM_UP_TOKEN);
      return transportReply('unknown');
    };
    await tryOnce(send, { timeoutMs: this.#options.requestTimeoutMs });
  }

  #lookAfter(): void {
    const { session } = this.#client;
    if (!this.isReady || session === undefined) {
      void this.warm();
      return;
    }
    const timer = setTimeout(
      () => {
        session.destroy();
      },
      Math.min(PING_TIMEOUT_MS, this.#options.keepWarmMs),
    ).unref();
    session.ping(() => {
      clearTimeout(timer);
    });
  }

  #watch(session: ClientHttp2Session): void {
    let wasReady = false;
    const onLoss = (): void => {
      if (!wasReady || this.#keeper === undefined) return;
      const waitMs = Math.max(0, this.#warmedAtMs + MIN_REWARM_MS - performance.now());
      setTimeout(() => void this.warm(), waitMs).unref();
    };
    this.#sessions.add(session);
    session.once('connect', () => (wasReady = true));
    session.once('goaway', onLoss);
    session.once('close', () => {
      this.#sessions.delete(session);
      onLoss();
    });
  }
}
