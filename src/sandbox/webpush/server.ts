import { createSecureServer, type IncomingHttpHeaders, type ServerHttp2Session } from 'node:http2';
import type { JournalEntry } from '../journal.ts';
import { http2Exchange, isRecord, parseJsonObject, readBody } from '../loopback/exchange.ts';
import { Http2Session } from '../loopback/http2-session.ts';
import { LoopbackServer, type Http2Request, type LoopbackOptions } from '../loopback/server.ts';
import { VapidJudge, type VapidSigner } from './auth.ts';
import { decryptPush } from './decrypt.ts';
import { headerFault, readHeaders, routeFault, subscriptionName } from './head.ts';
import { webpushRefusal, webpushWording, type WebpushReason } from './reasons.ts';
import { browserKeys, sandboxSubscription, type SandboxSubscription } from './subscription.ts';

export interface WebpushServerOptions extends LoopbackOptions {
  readonly signer: VapidSigner;
  /** Streams a connection may have at once. */
  readonly maxStreams?: number | undefined;
}

/** What a push service must take (RFC 8030, section 7.2). */
const MAX_BODY_BYTES = 4_096;
/** As Google's front end has it. */
const MAX_STREAMS = 100;

/**
 * A push service and its browsers for the loopback: HTTP/2, VAPID, `POST /push/<name>`. It decrypts each push with the keys of its
 * subscription (`sandboxSubscription`), which only a browser can do, and refuses one that no browser could read.
 */
export class WebpushServer extends LoopbackServer {
  override readonly platform = 'webpush';
  protected override readonly acceptedStatus = 201;
  protected override readonly overQuota = webpushRefusal('TooManyPushes');
  protected override readonly idleGoodbye = 'session_timed_out';
  protected override readonly goodbye = 'server_shutting_down';
  readonly #judge: VapidJudge;
  #messages = 0;

  constructor(options: WebpushServerOptions) {
    const server = createSecureServer({
      ...options.certificate,
      minVersion: 'TLSv1.2',
      settings: { maxConcurrentStreams: options.maxStreams ?? MAX_STREAMS },
    });
    super(server, options);
    this.#judge = new VapidJudge(options.signer, options.now);
  }

  /** The subscription of a pretended browser. @param name 1 to 256 of `A-Z a-z 0-9 _ -` */
  subscription(name: string): SandboxSubscription {
    return sandboxSubscription(this.url, name);
  }

  /** Every VAPID token is refused with `BadJwtToken`, until `restoreKey`. */
  revokeKey(): void {
    this.#judge.setRevoked(true);
  }

  restoreKey(): void {
    this.#judge.setRevoked(false);
  }

  protected override openSession(session: ServerHttp2Session): Http2Session {
    return new Http2Session(session, { idleMs: this.timing.drawIdleMs(), goodbye: this.idleGoodbye });
  }

  protected override handleHttp2(session: Http2Session, request: Http2Request): void {
    void this.#handle(session, request);
  }

  async #handle(session: Http2Session, { stream, headers, at }: Http2Request): Promise<void> {
    const body = await readBody(stream, MAX_BODY_BYTES);
    if (!body) return;
    const push = readPush(headers, body);
    const received = { at, ...readHeaders(headers, at), ...push };
    const wording = webpushWording(`${this.url}/message/${++this.#messages}`);
    const exchange = http2Exchange(stream, session.peer, wording, (peer) => this.connections.reset(peer));
    const reason =
      routeFault(headers) ??
      (await this.#judge.fault(headers.authorization, `https://${headers[':authority'] ?? ''}`)) ??
      headerFault(headers) ??
      bodyFault(body, push);
    if (reason) this.refuse(received, exchange, webpushRefusal(reason));
    else this.answer(received, exchange);
  }
}

type Shown = Pick<JournalEntry, 'tag' | 'title' | 'body' | 'data' | 'payload'>;

function bodyFault(body: Buffer, { payload }: Shown): WebpushReason | undefined {
  if (body.length > MAX_BODY_BYTES) return 'BodyTooLarge';
  return payload === undefined ? 'BadEncryption' : undefined;
}

/** What the service worker gets; `payload` is undefined where the browser cannot read it. */
function readPush(headers: IncomingHttpHeaders, body: Buffer): Shown {
  const message = decrypted(subscriptionName(headers), body);
  const { title, body: text, tag, data } = message ?? {};
  return {
    tag: textOf(tag),
    title: textOf(title),
    body: textOf(text),
    data: isRecord(data) ? (data as Record<string, string>) : {},
    payload: message,
  };
}

function decrypted(name: string, body: Buffer): Record<string, unknown> | undefined {
  try {
    return parseJsonObject(decryptPush(body, browserKeys(name)));
  } catch {
    return undefined;
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
