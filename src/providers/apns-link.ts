import type { ClientHttp2Session } from 'node:http2';
import { isIP } from 'node:net';
import type { SecureContext, TLSSocket } from 'node:tls';
import { Provider } from 'apn';
import type { Notification } from 'apn';
import { correctClient } from './apns-client.ts';
import { WARM_UP_TOKEN, warmUpMessage } from './apns-message.ts';
import { clientOf } from './apns-types.ts';
import type { ApnsClient, ApnsFailure, ProviderToken } from './apns-types.ts';
import { limitHandshake, VERIFIED } from './endpoint.ts';
import type { Endpoint } from './endpoint.ts';
import { Outlet } from './outlet.ts';
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
/** A connection that was sent something and has said nothing for so long is pinged before its turn comes. */
const SILENCE_MS = 2_000;
/** While a ping is unanswered for longer than this, other connections are taken. */
const DOUBT_MS = 500;
/** Node's longest timer: the client's own time limit and ping are replaced by ours. */
const NEVER_MS = 2 ** 31 - 1;

/** One connection to APNs, opened ahead of need, looked after, and drained when it is closed. */
export class ApnsLink {
  readonly #options: LinkOptions;
  readonly #provider: Provider;
  readonly #client: ApnsClient;
  readonly #sessions = new Set<ClientHttp2Session>();
  readonly #sockets = new Set<TLSSocket>();
  /** Of the connection that was opened last. */
  #outlet: Outlet | undefined;
  #keeper: NodeJS.Timeout | undefined;
  #warming: Promise<void> | undefined;
  #warmedAtMs = -Infinity;
  /** Connections in a row that never stood. */
  #failures = 0;
  #awaited = 0;
  /** Since when something is awaited and nothing has come. */
  #silentSinceMs = 0;
  #pingedAtMs = Infinity;
  #isClosed = false;

  constructor(options: LinkOptions) {
    const { key, keyId, teamId, endpoint } = options;
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
      requestTimeout: NEVER_MS,
      connectionRetryLimit: 0,
      heartBeat: NEVER_MS,
      ...http2Options,
    });
    this.#client = clientOf(this.#provider);
    correctClient(this.#client, (session) => this.#watch(session));
  }

  get token(): ProviderToken {
    return this.#client.config.token;
  }

  /** Links of one provider share a token: APNs counts each new one as an update, and allows one in 20 minutes. */
  set token(token: ProviderToken) {
    this.#client.config.token = token;
  }

  /** Whether a send would find an open connection, as far as anybody can tell. */
  get isReady(): boolean {
    const isDoubtful = performance.now() - this.#pingedAtMs > DOUBT_MS;
    return this.#isOpen && !isDoubtful;
  }

  /** Nothing where APNs took it, otherwise what the client says about it. */
  async send(message: Notification, token: string): Promise<ApnsFailure | undefined> {
    const startedAtMs = performance.now();
    if (this.#awaited === 0) this.#silentSinceMs = startedAtMs;
    else if (startedAtMs - this.#silentSinceMs > SILENCE_MS) this.#lookAfter();
    this.#awaited += 1;
    try {
      const { failed } = await this.#provider.send(message, token);
      const failure = failed[0] as ApnsFailure | undefined;
      if (failure === undefined || failure.status !== undefined) this.#silentSinceMs = performance.now();
      return failure;
    } finally {
      this.#awaited -= 1;
    }
  }

  /** To be told that an answer never came: either it is slow, or the connection is gone without a word. */
  doubt(): void {
    if (this.#isOpen) this.#lookAfter();
  }

  /** Connects, and has the first stream's limit lifted. From then on the connection is kept so. Never throws. */
  warm(): Promise<void> {
    if (this.#isClosed) return Promise.resolve();
    this.#keeper ??= setInterval(() => {
      this.#lookAfter();
    }, this.#options.keepWarmMs).unref();
    if (this.#isOpen) return Promise.resolve();
    // Begun a moment later: its own send looks after the connection, and must find that this has been done.
    this.#warming ??= Promise.resolve()
      .then(() => this.#warmUp())
      .finally(() => (this.#warming = undefined));
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

  get #isOpen(): boolean {
    const { session } = this.#client;
    return session !== undefined && !session.closed && !session.destroyed && !session.connecting;
  }

  #openSocket(): TLSSocket {
    const { endpoint, secureContext } = this.#options;
    this.#outlet = new Outlet(endpoint);
    const socket = this.#outlet.secure({
      ...endpoint,
      ...VERIFIED,
      ALPNProtocols: ['h2'],
      ...(isIP(endpoint.host) === 0 ? { servername: endpoint.host } : {}),
      ...(secureContext === undefined ? {} : { secureContext }),
    });
    limitHandshake(socket);
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

  /** One ping at a time; a connection that does not answer it is given up, and what waits on it with it. */
  #lookAfter(): void {
    const { session } = this.#client;
    if (!this.#isOpen || session === undefined) {
      void this.warm();
      return;
    }
    if (this.#pingedAtMs !== Infinity) return;
    this.#pingedAtMs = performance.now();
    const timer = setTimeout(
      () => {
        session.destroy();
      },
      Math.min(PING_TIMEOUT_MS, this.#options.keepWarmMs),
    ).unref();
    // Also called where the connection is lost before the answer.
    const onAnswer = (): void => {
      clearTimeout(timer);
      this.#pingedAtMs = Infinity;
      this.#silentSinceMs = performance.now();
    };
    if (!session.ping(onAnswer)) onAnswer();
  }

  #watch(session: ClientHttp2Session): Outlet {
    const outlet = this.#outlet;
    if (outlet === undefined) throw new Error('apn: a connection that was opened by somebody else');
    const onLoss = (): void => {
      if (this.#keeper === undefined || this.#isClosed) return;
      const pauseMs = Math.min(MIN_REWARM_MS * 2 ** this.#failures, this.#options.keepWarmMs);
      const waitMs = Math.max(0, this.#warmedAtMs + pauseMs - performance.now());
      setTimeout(() => void this.warm(), waitMs).unref();
    };
    let hasFailed = true;
    this.#sessions.add(session);
    session.once('connect', () => {
      hasFailed = false;
      this.#failures = 0;
    });
    session.once('goaway', onLoss);
    session.once('close', () => {
      if (hasFailed) this.#failures += 1;
      this.#sessions.delete(session);
      onLoss();
    });
    return outlet.once('shut', onLoss);
  }
}
