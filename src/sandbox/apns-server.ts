import { createSecureServer, type Http2SecureServer, type ServerHttp2Stream } from 'node:http2';
import { TokenJudge, type ApnsSigner } from './apns-auth.ts';
import { apnsExchange } from './apns-exchange.ts';
import { header, headerFault, messageId, readHead, readHeaders, routeFault, type ApnsHead } from './apns-head.ts';
import { MAX_READ_BYTES, payloadFault, readAlert } from './apns-payload.ts';
import { apnsRefusal, type ApnsReason } from './apns-reasons.ts';
import { ApnsSession } from './apns-session.ts';
import { parseJsonObject, readBody } from './body.ts';
import { arrivalInstant } from './journal.ts';
import { LoopbackServer, type LoopbackOptions } from './loopback-server.ts';

export interface ApnsServerOptions extends LoopbackOptions {
  readonly signer: ApnsSigner;
  /** The app's bundle id. */
  readonly topic: string;
  /** Streams a connection may have at once, once a token was accepted on it. */
  readonly maxStreams?: number | undefined;
  /** A connection whose token changes sooner is told `TooManyProviderTokenUpdates`. */
  readonly tokenUpdateMs?: number | undefined;
}

/** APNs lets a connection change its token once in 20 minutes. */
const TOKEN_UPDATE_MS = 20 * 60_000;
const MAX_STREAMS = 1_000;

/** APNs for the loopback: HTTP/2, provider tokens, `POST /3/device/<token>`. */
export class ApnsServer extends LoopbackServer {
  override readonly platform = 'apns';
  protected override readonly overQuota = apnsRefusal('TooManyRequests');
  readonly #judge: TokenJudge;
  readonly #headerFault: (head: ApnsHead) => ApnsReason | undefined;
  readonly #sessions = new Set<ApnsSession>();
  #goAwayEvery: number | undefined;

  constructor(options: ApnsServerOptions) {
    // Before a token was accepted, a connection has one stream.
    const server = createSecureServer({
      ...options.certificate,
      minVersion: 'TLSv1.2',
      settings: { maxConcurrentStreams: 1 },
    });
    super(server, options);
    this.#judge = new TokenJudge(options.signer, options.now);
    this.#headerFault = headerFault(options.topic);
    this.#serve(server, options);
  }

  /** Every n-th request makes its connection go away; undefined ends it. */
  goAwayEvery(requests: number | undefined): void {
    this.#goAwayEvery = requests;
  }

  /** All connections go away, in APNs' way: what has begun is finished, what comes later is not looked at. */
  goAway(reason: ApnsReason = 'Shutdown'): void {
    for (const session of this.#sessions) session.goAway(reason);
  }

  /** Tokens of the key are told `InvalidProviderToken`, until it is restored. */
  revokeKey(): void {
    this.#judge.setRevoked(true);
  }

  restoreKey(): void {
    this.#judge.setRevoked(false);
  }

  /** Every token seen so far is told `ExpiredProviderToken`; one that is made anew is taken. */
  async expireTokens(): Promise<void> {
    await this.#judge.expireSeen();
  }

  protected override tokenKey(token: string): string {
    return token.toLowerCase();
  }

  #serve(server: Http2SecureServer, options: ApnsServerOptions): void {
    const { maxStreams = MAX_STREAMS, tokenUpdateMs = TOKEN_UPDATE_MS } = options;
    server.on('session', (http2Session) => {
      const session = new ApnsSession(http2Session, { maxStreams, tokenUpdateMs });
      this.#sessions.add(session);
      http2Session.once('close', () => this.#sessions.delete(session));
      http2Session.on('stream', (stream, _headers, _flags, rawHeaders) => {
        const at = arrivalInstant();
        stream.on('error', () => undefined); // the client went away; what was decided stands
        if (!session.begin(stream)) return;
        const count = this.countRequest();
        if (this.cut(session.peer)) return;
        if (this.#goAwayEvery !== undefined && count % this.#goAwayEvery === 0) session.goAway('Shutdown');
        void this.#handle(session, stream, readHead(rawHeaders), at);
      });
    });
  }

  async #handle(session: ApnsSession, stream: ServerHttp2Stream, head: ApnsHead, at: number): Promise<void> {
    const body = await readBody(stream, MAX_READ_BYTES);
    if (!body) return;
    const payload = parseJsonObject(body);
    const apnsId = messageId(head) ?? crypto.randomUUID().toUpperCase();
    const received = { at, apnsId, ...readHeaders(head), ...readAlert(payload) };
    const exchange = apnsExchange(stream, apnsId, session.peer, (peer) => this.connections.reset(peer));
    const reason =
      routeFault(head) ??
      (await this.#tokenFault(session, head)) ??
      this.#headerFault(head) ??
      payloadFault(body, payload, received.pushType);
    if (reason) {
      this.refuse(received, exchange, apnsRefusal(reason));
      return;
    }
    const answer = await this.answer(received, exchange);
    if (answer.kind === 'refuse' && answer.reason === 'ExpiredProviderToken') session.forgetToken();
  }

  async #tokenFault(session: ApnsSession, head: ApnsHead): Promise<ApnsReason | undefined> {
    const verdict = await this.#judge.judge(header(head, 'authorization'));
    if (verdict.ok) return session.useToken(verdict.jwt, this.now());
    if (verdict.reason === 'ExpiredProviderToken') session.forgetToken();
    return verdict.reason;
  }
}
