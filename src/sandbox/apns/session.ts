import type { ServerHttp2Session } from 'node:http2';
import type { ApnsReason } from './reasons.ts';
import { Http2Session, type IdleLimit } from '../loopback/http2-session.ts';

export interface ApnsSessionOptions {
  readonly maxStreams: number;
  readonly tokenUpdateMs: number;
}

/** One connection to the APNs server, with the provider token that it uses. */
export class ApnsSession extends Http2Session {
  readonly #options: ApnsSessionOptions;
  #token: { readonly jwt: string; readonly since: number; isExpired: boolean } | undefined;
  #isRaised = false;

  constructor(session: ServerHttp2Session, idleLimit: IdleLimit, options: ApnsSessionOptions) {
    super(session, idleLimit);
    this.#options = options;
  }

  /** Accepts a valid token and allows more streams; answers a reason if the token changed too soon. */
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

  /** The client was told that its token has expired, so its next token does not count as an update that came too soon. */
  expireToken(): void {
    if (this.#token) this.#token.isExpired = true;
  }
}
