import type { ServerHttp2Session } from 'node:http2';
import type { ApnsReason } from './reasons.ts';
import { Http2Session, type IdleLimit } from '../loopback/http2-session.ts';

export interface ApnsSessionOptions {
  readonly maxStreams: number;
  readonly tokenUpdateMs: number;
}

/** One connection as APNs treats it: what holds for every HTTP/2 session, and its provider token. */
export class ApnsSession extends Http2Session {
  readonly #options: ApnsSessionOptions;
  #token: { readonly jwt: string; readonly since: number; isExpired: boolean } | undefined;
  #isRaised = false;

  constructor(session: ServerHttp2Session, idleLimit: IdleLimit, options: ApnsSessionOptions) {
    super(session, idleLimit);
    this.#options = options;
  }

  /** Takes a token that is in order, and opens the connection to more streams; the reason where it changed too soon. */
  useToken(jwt: string, now: number): ApnsReason | undefined {
    const token = this.#token;
    const isUpdate = token !== undefined && token.jwt !== jwt;
    if (isUpdate && !token.isExpired && now - token.since < this.#options.tokenUpdateMs) {
      return 'TooManyProviderTokenUpdates';
    }
    if (token?.jwt !== jwt) this.#token = { jwt, since: now, isExpired: false };
    if (!this.#isRaised && !this.session.destroyed) {
      this.#isRaised = true;
      this.session.settings({ maxConcurrentStreams: this.#options.maxStreams });
    }
    return undefined;
  }

  /** The client is told that its token has expired: the next one is no update that came too soon. */
  expireToken(): void {
    if (this.#token) this.#token.isExpired = true;
  }
}
