import { createSecureServer, type ServerHttp2Session } from 'node:http2';
import { TokenJudge, type ApnsSigner, type TokenVerdict } from './auth.ts';
import { header, headerFault, messageId, readHead, readHeaders, routeFault } from './head.ts';
import { MAX_READ_BYTES, payloadFault, readAlert } from './payload.ts';
import { apnsRefusal, apnsWording, type ApnsReason } from './reasons.ts';
import { ApnsSession, type ApnsSessionOptions } from './session.ts';
import { http2Exchange, parseJsonObject, readBody } from '../loopback/exchange.ts';
import { LoopbackServer, type Http2Request, type LoopbackOptions } from '../loopback/server.ts';

/** An app, and the key that signs its tokens. */
export interface ApnsApp {
  readonly signer: ApnsSigner;
  /** The app's bundle id. */
  readonly topic: string;
}

export interface ApnsServerOptions extends LoopbackOptions, ApnsApp {
  /** Streams a connection may have at once, once a token was accepted on it. */
  readonly maxStreams?: number | undefined;
  /** If a connection changes its token sooner, the answer is `TooManyProviderTokenUpdates`. Milliseconds. */
  readonly tokenUpdateMs?: number | undefined;
}

/** APNs lets a connection change its token once in 20 minutes. */
const TOKEN_UPDATE_MS = 20 * 60_000;
const MAX_STREAMS = 1_000;

/** APNs for the loopback: HTTP/2, provider tokens, `POST /3/device/<token>`. */
export class ApnsServer extends LoopbackServer<ApnsSession> {
  override readonly platform = 'apns';
  protected override readonly overQuota = apnsRefusal('TooManyRequests');
  protected override readonly idleGoodbye = goodbyeOf('IdleTimeout');
  protected override readonly goodbye = goodbyeOf('Shutdown');
  readonly #judge: TokenJudge;
  /** By key id. */
  readonly #apps = new Map<string, ApnsApp>();
  readonly #sessionOptions: ApnsSessionOptions;

  constructor(options: ApnsServerOptions) {
    const { maxStreams = MAX_STREAMS, tokenUpdateMs = TOKEN_UPDATE_MS } = options;
    // Before a token was accepted, a connection has one stream.
    const server = createSecureServer({
      ...options.certificate,
      minVersion: 'TLSv1.2',
      settings: { maxConcurrentStreams: 1 },
    });
    super(server, options);
    this.#sessionOptions = { maxStreams, tokenUpdateMs };
    this.#judge = new TokenJudge(options.now);
    this.addKey(options);
  }

  /** A key of another app, or one more of the same app: its tokens are accepted for this topic. */
  addKey({ signer, topic }: ApnsApp): void {
    this.#apps.set(signer.keyId, { signer, topic });
    this.#judge.add(signer);
  }

  /** Closes all connections as APNs does: by GOAWAY with the reason as JSON in its debug data. */
  override goAway(reason: ApnsReason = 'Shutdown'): void {
    super.goAway(goodbyeOf(reason));
  }

  /** Every token of the key (of all keys without an id) is answered with `InvalidProviderToken`, until `restoreKey`. */
  revokeKey(keyId?: string): void {
    this.#judge.setRevoked(true, keyId);
  }

  restoreKey(keyId?: string): void {
    this.#judge.setRevoked(false, keyId);
  }

  /** Every token seen so far is answered with `ExpiredProviderToken`; a new token is accepted. */
  async expireTokens(): Promise<void> {
    await this.#judge.expireSeen();
  }

  protected override tokenKey(token: string): string {
    return token.toLowerCase();
  }

  protected override openSession(session: ServerHttp2Session): ApnsSession {
    const idleLimit = { idleMs: this.timing.drawIdleMs(), goodbye: this.idleGoodbye };
    return new ApnsSession(session, idleLimit, this.#sessionOptions);
  }

  protected override handleHttp2(session: ApnsSession, request: Http2Request): void {
    void this.#handle(session, request);
  }

  async #handle(session: ApnsSession, { stream, rawHeaders, at }: Http2Request): Promise<void> {
    const head = readHead(rawHeaders);
    const body = await readBody(stream, MAX_READ_BYTES);
    if (!body) return;
    const payload = parseJsonObject(body);
    const apnsId = messageId(head) ?? crypto.randomUUID().toUpperCase();
    const verdict = await this.#judge.judge(header(head, 'authorization'));
    const app = verdict.ok ? this.#apps.get(verdict.keyId) : undefined;
    const signedBy = app && { keyId: app.signer.keyId, teamId: app.signer.teamId };
    const headers = readHeaders(head);
    const received = { at, apnsId, ...headers, ...signedBy, ...readAlert(payload, headers.pushType) };
    const exchange = http2Exchange(stream, session.peer, apnsWording(apnsId), (peer) => this.connections.reset(peer));
    const reason =
      routeFault(head) ??
      this.#tokenFault(session, verdict) ??
      headerFault(head, app?.topic) ??
      payloadFault(body, payload, received.pushType);
    if (reason) {
      this.refuse(received, exchange, apnsRefusal(reason));
      return;
    }
    const answer = this.answer(received, exchange);
    if (answer.kind === 'refuse' && answer.reason === 'ExpiredProviderToken') session.expireToken();
  }

  #tokenFault(session: ApnsSession, verdict: TokenVerdict): ApnsReason | undefined {
    if (verdict.ok) return session.useToken(verdict.jwt, this.now());
    if (verdict.reason === 'ExpiredProviderToken') session.expireToken();
    return verdict.reason;
  }
}

function goodbyeOf(reason: ApnsReason): string {
  return JSON.stringify({ reason });
}
