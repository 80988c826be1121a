import { InputError } from '../../domain/faults.ts';
import { parseObject } from '../../domain/json.ts';
import { bundleIdOf } from '../../notification/devices/apns/payload.ts';
import { parseEndpoint, trustBeside, type Answered, type SendResult } from '../sender/result.ts';
import { createSender } from '../sender/sender.ts';
import { createApnsCredential, type ApnsOptions } from './apns.ts';

/**
 * Apple's management of broadcast channels, for operators; workers do not use it
 * (developer.apple.com/documentation/usernotifications/sending-channel-management-requests-to-apns).
 */

/** Whether a channel keeps the newest push for phones that are offline. It cannot be changed later. */
export type ChannelStorage = 'none' | 'most-recent';

/** Apple's number for each `ChannelStorage`. */
const POLICIES = { none: 0, 'most-recent': 1 } as const satisfies Record<ChannelStorage, number>;

/** The value that was asked for, or why there is none. */
export type ChannelAnswer<T> =
  | { readonly kind: 'done'; readonly value: T }
  /** APNs refused the request. `reason`: Apple's word, or the status (`http-500`) if there is no word. */
  | { readonly kind: 'refused'; readonly status: number; readonly reason: string }
  /** No usable answer came. `isUnknown`: APNs may have done it all the same. `detail` contains nothing private. */
  | { readonly kind: 'failed'; readonly code: string; readonly detail?: string; readonly isUnknown: boolean };

/** The channels of one app at APNs. Nothing throws: each failure is an answer. */
export interface ChannelManager {
  /** The app's bundle id. */
  readonly bundleId: string;
  /** Host and port: `api-manage-broadcast.push.apple.com:2196`. */
  readonly host: string;
  /** Makes a channel, and answers its id. A second call makes a second channel. */
  create(storage: ChannelStorage): Promise<ChannelAnswer<string>>;
  /** What the channel keeps. */
  read(id: string): Promise<ChannelAnswer<ChannelStorage>>;
  /** The ids of all channels. */
  list(): Promise<ChannelAnswer<readonly string[]>>;
  /** Deletes the channel for good: no other channel ever gets this id. */
  delete(id: string): Promise<ChannelAnswer<undefined>>;
  close(): Promise<void>;
}

/** Where channels are managed, for each host to which pushes are sent, whatever its port. */
const ENDPOINTS: Readonly<Record<string, string>> = {
  'api.push.apple.com': 'https://api-manage-broadcast.push.apple.com:2196',
  'api.sandbox.push.apple.com': 'https://api-manage-broadcast.sandbox.push.apple.com:2195',
  'api.development.push.apple.com': 'https://api-manage-broadcast.sandbox.push.apple.com:2195',
};

/** Apple allows 10,000 channels, whose ids take some 300 kB. */
const MAX_LIST_BYTES = 2 ** 20;

/**
 * @param now epoch milliseconds
 * @throws InputError if the channels' endpoint is unknown, or if it or the key is not usable; the error shows neither.
 */
export function createChannelManager(options: ApnsOptions, now: () => number = Date.now): ChannelManager {
  const given = options.channelsEndpoint ?? ENDPOINTS[new URL(options.endpoint).hostname];
  if (given === undefined) {
    const expected = "the address of APNs' management of channels, since APNS_ENDPOINT is not one of Apple's";
    throw new InputError('bad environment', [{ path: 'APNS_CHANNELS_ENDPOINT', expected, found: 'nothing' }]);
  }
  const endpoint = parseEndpoint(given, 'APNS_CHANNELS_ENDPOINT');
  const sender = createSender({ endpoint, secureContext: trustBeside(options.ca), minConnections: 1 });
  const credential = createApnsCredential(options, now);
  const bundleId = bundleIdOf(options.topic);

  async function ask(
    method: 'POST' | 'GET' | 'DELETE',
    { place = 'channels', id, body = '' }: { place?: string; id?: string; body?: string },
  ): Promise<SendResult> {
    const authorization = await credential.obtain();
    if (typeof authorization !== 'string') return { kind: 'unsent', code: 'closed', detail: authorization.code };
    const headers = {
      ...{ ':method': method, ':path': `/1/apps/${bundleId}/${place}`, authorization },
      'apns-request-id': crypto.randomUUID(),
      ...(id !== undefined && { 'apns-channel-id': id }),
      ...(body !== '' && { 'content-type': 'application/json' }),
    };
    return sender.send({ headers, body, maxBodyBytes: MAX_LIST_BYTES });
  }

  return {
    bundleId,
    host: new URL(given).host,
    async create(storage) {
      const body = JSON.stringify({ 'message-storage-policy': POLICIES[storage], 'push-type': 'LiveActivity' });
      return answerOf(await ask('POST', { body }), 201, ({ headers }) => {
        const id = headers['apns-channel-id'];
        return typeof id === 'string' && id !== '' ? id : undefined;
      });
    },
    async read(id) {
      return answerOf(await ask('GET', { id }), 200, ({ body }) => {
        const policy = parseObject(body)['message-storage-policy'];
        return (Object.keys(POLICIES) as ChannelStorage[]).find((storage) => POLICIES[storage] === policy);
      });
    },
    async list() {
      return answerOf(await ask('GET', { place: 'all-channels' }), 200, ({ body }) => {
        const { channels } = parseObject(body);
        return isTexts(channels) ? channels : undefined;
      });
    },
    async delete(id) {
      const answer = answerOf(await ask('DELETE', { id }), 204, () => true);
      return answer.kind === 'done' ? { kind: 'done', value: undefined } : answer;
    },
    close: () => sender.close(),
  };
}

/** @param read reads the value from the answer; gives undefined if the answer is not what Apple documents */
function answerOf<T>(
  result: SendResult,
  expected: number,
  read: (answer: Answered) => T | undefined,
): ChannelAnswer<T> {
  if (result.kind !== 'answered') {
    const { kind, code, detail } = result;
    return { kind: 'failed', code, ...(detail !== undefined && { detail }), isUnknown: kind === 'unknown' };
  }
  if (result.status !== expected) {
    const { reason } = parseObject(result.body);
    return {
      kind: 'refused',
      status: result.status,
      reason: typeof reason === 'string' ? reason : `http-${result.status}`,
    };
  }
  const value = read(result);
  if (value !== undefined) return { kind: 'done', value };
  const isUnknown = expected !== 200; // reading changes nothing
  return { kind: 'failed', code: 'unreadable', detail: 'not the answer that Apple documents', isUnknown };
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string');
}
