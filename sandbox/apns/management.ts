import {
  createSecureServer,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { AddressInfo } from 'node:net';
import { isIPv6 } from 'node:net';
import { isObject, parseJson } from '../../src/domain/json.ts';
import type { Certificate } from '../loopback/certificates.ts';
import { readBody } from '../loopback/exchange.ts';
import type { Channels, StoragePolicy } from './channels.ts';
import { UUID, type TokenVerdict } from './head.ts';
import { CHANNEL_REASONS, type ChannelReason } from './reasons.ts';

export interface ManagementOptions {
  readonly certificate: Certificate;
  readonly judge: (authorization: string | undefined) => Promise<TokenVerdict>;
  /** The bundle id of the app whose key has this id. */
  readonly topicOf: (keyId: string) => string | undefined;
  readonly channelsOf: (bundleId: string) => Channels;
}

/** An answer, without the headers that all have. */
interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly json?: object;
}

const PATH = /^\/1\/apps\/([^/?]+)\/(channels|all-channels)$/;
const METHODS = { channels: ['POST', 'GET', 'DELETE'], 'all-channels': ['GET'] } as const;
/** A longer body is no request for a channel. */
const MAX_BYTES = 4_096;

/**
 * APNs' management of channels on the loopback, on a port of its own, as at Apple
 * (developer.apple.com/documentation/usernotifications/sending-channel-management-requests-to-apns).
 */
export class ManagementServer {
  readonly #options: ManagementOptions;
  readonly #server;
  readonly #sessions = new Set<ServerHttp2Session>();
  #url = '';

  constructor(options: ManagementOptions) {
    this.#options = options;
    this.#server = createSecureServer({ ...options.certificate, minVersion: 'TLSv1.2' });
    this.#server.on('session', (session) => {
      this.#sessions.add(session);
      session.once('close', () => this.#sessions.delete(session));
    });
    this.#server.on('stream', (stream, headers) => {
      stream.on('error', () => undefined); // the client went away
      void this.#handle(stream, headers);
    });
  }

  /** `https://127.0.0.1:41873` */
  get url(): string {
    return this.#url;
  }

  /** Starts to listen; port 0 takes any free one. `advertised` is the host name in `url`. */
  async listen(port: number, host: string, advertised: string): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, host, () => {
        this.#server.off('error', reject);
        resolve();
      });
    });
    const at = this.#server.address() as AddressInfo;
    this.#url = `https://${isIPv6(advertised) ? `[${advertised}]` : advertised}:${at.port}`;
  }

  async close(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = new Promise((resolve) => this.#server.once('close', resolve));
    this.#server.close();
    for (const session of this.#sessions) session.destroy();
    await closed;
  }

  async #handle(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): Promise<void> {
    const body = await readBody(stream, MAX_BYTES);
    if (body === undefined) return;
    const { status, headers: more, json } = await this.#answer(headers, body);
    if (stream.destroyed || stream.closed) return;
    const given = textOf(headers['apns-request-id']) ?? '';
    const requestId = UUID.test(given) ? given : crypto.randomUUID();
    const type = json === undefined ? {} : { 'content-type': 'application/json' };
    stream.respond({ ':status': status, 'apns-request-id': requestId, ...type, ...more });
    stream.end(json === undefined ? '' : JSON.stringify(json));
  }

  async #answer(headers: IncomingHttpHeaders, body: Buffer): Promise<Answer> {
    const [, bundleId = '', place = ''] = PATH.exec(textOf(headers[':path']) ?? '') ?? [];
    const method = textOf(headers[':method']) ?? '';
    if (place !== 'channels' && place !== 'all-channels') return refusal('BadPath');
    if (!(METHODS[place] as readonly string[]).includes(method)) return refusal('MethodNotAllowed');
    const verdict = await this.#options.judge(textOf(headers.authorization));
    if (!verdict.ok) return refusal(verdict.reason);
    if (bundleId.endsWith('.push-type.liveactivity')) return refusal('TopicDisallowed');
    if (bundleId !== this.#options.topicOf(verdict.keyId)) return refusal('TopicMismatch');
    const channels = this.#options.channelsOf(bundleId);
    if (place === 'all-channels') return { status: 200, json: { channels: channels.ids } };
    return method === 'POST' ? create(channels, body) : one(channels, method, textOf(headers['apns-channel-id']));
  }
}

/** `POST`: a new channel. */
function create(channels: Channels, body: Buffer): Answer {
  const asked = parseJson(body.toString('utf8'));
  if (!isObject(asked)) return refusal('BadRequestPayload');
  const { 'message-storage-policy': policy, 'push-type': pushType, ...others } = asked;
  if (pushType === undefined) return refusal('MissingPushType');
  if (pushType !== 'LiveActivity') return refusal('InvalidPushType');
  if (Object.keys(others).length > 0 || (policy !== 0 && policy !== 1)) return refusal('BadRequestParams');
  const id = channels.create(policy satisfies StoragePolicy);
  return id === undefined ? refusal('CannotCreateChannelConfig') : { status: 201, headers: { 'apns-channel-id': id } };
}

/** `GET` or `DELETE` of one channel. What there never was is a bad id, and a delete of what is not there a bad path. */
function one(channels: Channels, method: string, id: string | undefined): Answer {
  if (id === undefined || id === '') return refusal('MissingChannelId');
  if (!isChannelId(id)) return refusal('BadChannelId');
  if (method === 'DELETE') return channels.delete(id) ? { status: 204 } : refusal('BadPath');
  const policy = channels.policyOf(id);
  if (policy === 'deleted') return refusal('ChannelNotRegistered');
  if (policy === 'unknown') return refusal('BadChannelId');
  return { status: 200, json: { 'message-storage-policy': policy, 'push-type': 'LiveActivity' } };
}

/** Whether a text is base64, and so may be the id of a channel. */
export function isChannelId(text: string): boolean {
  return text.length <= 256 && text.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(text);
}

function refusal(reason: ChannelReason): Answer {
  return { status: CHANNEL_REASONS[reason], json: { reason } };
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
