import { isObject } from '../../src/domain/json.ts';
import { createPublicKey } from 'node:crypto';
import { createSecureServer, type ServerHttp2Session } from 'node:http2';
import { ignoredByDevice, ignoredByLiveActivity } from '../aps.ts';
import type { SandboxPhone } from '../interface.ts';
import type { JournalEntry } from '../journal.ts';
import { makeSigningKey } from '../loopback/certificates.ts';
import { Http2Session, type IdleLimit } from '../loopback/connections.ts';
import { http2Exchange, parseJsonObject, readBody } from '../loopback/exchange.ts';
import { isAccepted } from '../loopback/answers.ts';
import { LoopbackServer, type Http2Request, type LoopbackOptions, type ServerKind } from '../loopback/server.ts';
import { Channels, MOST_CHANNELS } from './channels.ts';
import {
  bundleId,
  TokenJudge,
  type ApnsSigner,
  type TokenVerdict,
  header,
  headerFault,
  idHeader,
  isBroadcast,
  messageId,
  readHead,
  readHeaders,
  routeFault,
} from './head.ts';
import { isChannelId, ManagementServer } from './management.ts';
import { apnsRefusal, apnsWording, type ApnsReason } from './reasons.ts';

/** An app, and the key that signs its tokens. */
export interface ApnsApp {
  readonly signer: ApnsSigner;
  /** The app's bundle id. */
  readonly topic: string;
}

export interface ApnsServerOptions extends LoopbackOptions, ApnsApp {
  /** Streams a connection may have at once, once a token was accepted on it. */
  readonly maxStreams?: number | undefined;
  /** How many channels an app may have. Default: 10,000. */
  readonly maxChannels?: number | undefined;
}

/** APNs lets a connection change its token once in 20 minutes; sooner, the answer is `TooManyProviderTokenUpdates`. */
const TOKEN_UPDATE_MS = 20 * 60_000;
const MAX_STREAMS = 1_000;

/**
 * APNs for the loopback: HTTP/2, provider tokens, `POST /3/device/<token>`, and `POST /4/broadcasts/apps/<bundle id>` to the
 * channels that are made at its other address, `channelsUrl`.
 */
export class ApnsServer extends LoopbackServer<ApnsSession> {
  override readonly platform = 'apns';
  protected override readonly idleDebugData = debugDataOf('IdleTimeout');
  protected override readonly debugData = debugDataOf('Shutdown');
  readonly #judge: TokenJudge;
  /** By key id. */
  readonly #apps = new Map<string, ApnsApp>();
  readonly #sessionOptions: ApnsSessionOptions;
  readonly #management: ManagementServer;
  /** By bundle id. */
  readonly #channels = new Map<string, Channels>();
  readonly #maxChannels: number;

  constructor(options: ApnsServerOptions) {
    const { maxStreams = MAX_STREAMS } = options;
    // Before a token was accepted, a connection has one stream.
    const server = createSecureServer({
      ...options.certificate,
      minVersion: 'TLSv1.2',
      settings: { maxConcurrentStreams: 1 },
    });
    super(server, options);
    this.#sessionOptions = { maxStreams };
    this.#judge = new TokenJudge(options.now);
    this.#maxChannels = options.maxChannels ?? MOST_CHANNELS;
    this.#management = new ManagementServer({
      certificate: options.certificate,
      judge: (authorization) => this.#judge.judge(authorization),
      topicOf: (keyId) => this.#apps.get(keyId)?.topic,
      channelsOf: (topic) => this.channels(topic),
    });
    this.addKey(options);
  }

  /** The address at which channels are made, listed and deleted: `https://127.0.0.1:41874`. */
  get channelsUrl(): string {
    return this.#management.url;
  }

  /** The channels of an app. */
  channels(topic: string = IDENTITY.topic): Channels {
    const known = this.#channels.get(topic) ?? new Channels(this.now, this.#maxChannels);
    this.#channels.set(topic, known);
    return known;
  }

  /** @throws RangeError if the sandbox's app has no such channel. */
  subscribe(channelId: string): SandboxPhone {
    return this.channels().subscribe(channelId);
  }

  /** Starts to serve the management of channels; port 0 takes any free one. */
  listenForChannels(port: number, host: string, advertised: string): Promise<void> {
    return this.#management.listen(port, host, advertised);
  }

  override async close(): Promise<void> {
    await Promise.all([super.close(), this.#management.close()]);
  }

  /** A key of another app, or one more of the same app: its tokens are accepted for this topic. */
  addKey({ signer, topic }: ApnsApp): void {
    this.#apps.set(signer.keyId, { signer, topic });
    this.#judge.add(signer);
  }

  /** Closes all connections as APNs does: by GOAWAY with the reason as JSON in its debug data. */
  override goAway(reason: ApnsReason = 'Shutdown'): void {
    super.goAway(debugDataOf(reason));
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
    const idleLimit = { idleMs: this.timing.drawIdleMs(), debugData: this.idleDebugData };
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
    const wording = apnsWording(apnsId, idHeader(head));
    const exchange = http2Exchange(stream, session.peer, wording, (peer) => this.connections.reset(peer));
    const channels = isBroadcast(head) ? this.channels(bundleId(head)) : undefined;
    const reason =
      routeFault(head) ??
      this.#tokenFault(session, verdict) ??
      headerFault(head, app?.topic) ??
      channelFault(headers, channels) ??
      payloadFault(body, payload, headers);
    if (reason) {
      this.refuse(received, exchange, apnsRefusal(reason));
      return;
    }
    const answer = this.answer(received, exchange);
    if (answer.kind === 'refuse' && answer.reason === 'ExpiredProviderToken') session.expireToken();
    if (isAccepted(answer)) channels?.publish(headers.channel ?? '', payload, headers.expiration ?? 0);
  }

  #tokenFault(session: ApnsSession, verdict: TokenVerdict): ApnsReason | undefined {
    if (verdict.ok) return session.useToken(verdict.jwt, this.now());
    if (verdict.reason === 'ExpiredProviderToken') session.expireToken();
    return verdict.reason;
  }
}

function debugDataOf(reason: ApnsReason): string {
  return JSON.stringify({ reason });
}

export interface ApnsSessionOptions {
  readonly maxStreams: number;
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
    if (isUpdate && !token.isExpired && now - token.since < TOKEN_UPDATE_MS) {
      return 'TooManyProviderTokenUpdates';
    }
    if (token?.jwt !== jwt) this.#token = { jwt, since: now, isExpired: false };
    if (!this.#isRaised && !this.session.destroyed) {
      this.#isRaised = true;
      this.session.settings({ maxConcurrentStreams: this.#options.maxStreams });
    }
    return undefined;
  }

  /** The client got the answer that its token has expired, so its next token is not an update that came too soon. */
  expireToken(): void {
    if (this.#token) this.#token.isExpired = true;
  }
}

/** The largest payload, in bytes. */
const MAX_BYTES = 4_096;
const MAX_VOIP_BYTES = 5_120;
const MAX_CHANNEL_BYTES = 5_120;
/** It is enough to read this much of a body, and one byte more, to check its size. */
const MAX_READ_BYTES = MAX_VOIP_BYTES;

/** What is wrong with a payload. APNs has no reason for invalid JSON, so that counts as empty. */
function payloadFault(
  body: Buffer,
  payload: Readonly<Record<string, unknown>> | undefined,
  { channel, pushType }: Pick<JournalEntry, 'channel' | 'pushType'>,
): ApnsReason | undefined {
  const most = pushType === 'voip' ? MAX_VOIP_BYTES : MAX_BYTES;
  if (body.length > (channel === undefined ? most : MAX_CHANNEL_BYTES)) return 'PayloadTooLarge';
  return payload === undefined || Object.keys(payload).length === 0 ? 'PayloadEmpty' : undefined;
}

/** What is wrong with the channel. A channel that keeps nothing takes no expiration but 0. */
function channelFault(
  { channel = '', expiration }: Pick<JournalEntry, 'channel' | 'expiration'>,
  channels: Channels | undefined,
): ApnsReason | undefined {
  if (channels === undefined) return undefined;
  const policy = isChannelId(channel) ? channels.policyOf(channel) : 'unknown';
  if (policy === 'unknown') return 'BadChannelId';
  if (policy === 'deleted') return 'ChannelNotRegistered';
  return policy === 0 && expiration !== 0 ? 'BadExpirationDate' : undefined;
}

/** The alert and the app's own data in a payload. */
function readAlert(
  payload: Readonly<Record<string, unknown>> | undefined,
  pushType?: string,
): Pick<JournalEntry, 'title' | 'body' | 'data' | 'payload' | 'ignored'> {
  const { aps, ...rest } = payload ?? {};
  const alert = isObject(aps) ? aps['alert'] : undefined;
  const { title, body } = isObject(alert) ? alert : { title: undefined, body: alert };
  const data = Object.entries(rest).map(([key, value]) => [key, textOf(value)]);
  const ignored = pushType === 'liveactivity' ? ignoredByLiveActivity(payload) : ignoredByDevice(payload);
  return {
    title: typeof title === 'string' ? title : undefined,
    body: typeof body === 'string' ? body : undefined,
    data: Object.fromEntries(data) as Record<string, string>,
    payload,
    ...(ignored.length > 0 && { ignored }),
  };
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

const IDENTITY = { keyId: 'SANDBOXKEY', teamId: 'SANDBOXTM1', topic: 'dev.pushpacer.sandbox' } as const;

export const APNS_SERVER: ServerKind<ApnsServer> = {
  host: 'api.push.apple.com',
  key: { file: 'apns-key.p8', make: makeSigningKey },
  create: ({ apnsMaxChannels: maxChannels, ...options }, key) =>
    new ApnsServer({
      ...options,
      signer: { publicKey: createPublicKey(key), ...IDENTITY },
      topic: IDENTITY.topic,
      maxChannels,
    }),
  urlVariable: 'APNS_ENDPOINT',
  env: ({ key, ca }) => ({
    APNS_KEY_FILE: key,
    APNS_KEY_ID: IDENTITY.keyId,
    APNS_TEAM_ID: IDENTITY.teamId,
    APNS_TOPIC: IDENTITY.topic,
    APNS_CA_FILE: ca,
  }),
};
