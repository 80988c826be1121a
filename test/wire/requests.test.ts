import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  parseNotification,
  type Device,
  type Notification,
  type Platform,
} from '../../src/notification/notification.ts';
import { asDigest, MAX_DIGEST } from '../../src/notification/schema.ts';
import { payloadFaults } from '../../src/notification/rules.ts';
import { pushId } from '../../src/notification/device.ts';
import { apnsPayload } from '../../src/notification/devices/apns/payload.ts';
import { fcmMessage } from '../../src/notification/devices/fcm/payload.ts';
import type { Encoded, Provider, Push } from '../../src/providers/provider.ts';
import { webpushMessage } from '../../src/notification/devices/webpush/payload.ts';
import { decryptPush, browserKeys, ENDPOINT_PATH } from '../../sandbox/webpush/subscription.ts';
import { ca, openServer } from '../providers/h2-server.ts';
import { openApns, openFcm, openSandbox, openWebpush, sendPush } from '../support/providers.ts';
import { notifications, NOW_MS } from './notifications.ts';
import { apnsFaults, apnsLoudFaults } from './apns-rules.ts';
import { fcmBytes, fcmFaults, fcmLoudFaults } from './fcm-rules.ts';
import type { WireRequest } from './table.ts';
import { webpushFaults, webpushLoudFaults } from './webpush-rules.ts';

const SEED = 8_030;
const RUNS = 5_000;
const SENT = 100;

test(`${RUNS} notifications become requests that the providers take, loud, silent and as digests`, async () => {
  const [sandbox, now] = [await openSandbox(), () => NOW_MS];
  const providers: Providers = {
    apns: await openApns(sandbox, { now }),
    fcm: await openFcm(sandbox, { now }),
    webpush: await openWebpush(sandbox, { now }),
  };
  const withV2: Providers = { ...providers, fcm: await openFcm(sandbox, { now, androidV2: true }) };
  const counts = { accepted: 0, refused: 0, requests: 0, tooLarge: 0, channels: 0 };
  fc.assert(
    fc.property(notifications(), (raw) => {
      const parsed = parseNotification(raw);
      counts[parsed.ok ? 'accepted' : 'refused'] += 1;
      if (!parsed.ok) {
        fc.pre(false); // another one takes its place
        return;
      }
      if (parsed.notification.channel !== undefined) counts.channels += 1;
      for (const push of pushesOf(parsed.notification)) {
        const faults = preparedFaults(push, providers);
        counts[faults === undefined ? 'tooLarge' : 'requests'] += 1;
        expect(faults ?? []).toEqual([]);
        if (push.device.platform === 'fcm') expect(preparedFaults(push, withV2) ?? []).toEqual([]);
      }
    }),
    { seed: SEED, numRuns: RUNS, maxSkipsPerRun: 1 },
  );
  expect(counts.accepted).toBeGreaterThanOrEqual(RUNS);
  expect(counts.channels).toBeGreaterThan(RUNS / 50);
  expect(counts.refused).toBeLessThan(RUNS / 2);
  expect(counts.requests).toBeGreaterThan(2 * RUNS);
  expect(counts.tooLarge).toBeGreaterThan(0);
}, 300_000);

/** A request as the server got it. */
interface Got {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** Answers as each provider would. */
const ANSWERS = { apns: [200, ''], fcm: [200, '{"name":"projects/p/messages/1"}'], webpush: [201, ''] } as const;

test(`${SENT} notifications arrive at a server as requests that the providers take`, async () => {
  const got: Got[] = [];
  let answer: (typeof ANSWERS)[keyof typeof ANSWERS] = ANSWERS.apns;
  const server = await openServer((stream: ServerHttp2Stream, headers) => {
    const chunks: Buffer[] = [];
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('end', () => {
      got.push({ path: headers[':path'] ?? '', headers, body: Buffer.concat(chunks) });
      stream.respond({ ':status': answer[0] });
      stream.end(answer[1]);
    });
  });
  const sandbox = await openSandbox();
  const at = { endpoint: server.url, ca };
  const providers: Providers = {
    apns: await openApns(sandbox, at),
    fcm: await openFcm(sandbox, at),
    webpush: await openWebpush(sandbox, { origins: [server.url], ca }),
  };
  const sample = fc.sample(notifications(server.url), { seed: SEED, numRuns: 2 * SENT }).flatMap((raw) => {
    const parsed = parseNotification(raw);
    return parsed.ok ? [parsed.notification] : [];
  });
  expect(sample.length).toBeGreaterThanOrEqual(SENT);
  let sent = 0;
  for (const push of sample.slice(0, SENT).flatMap(pushesOf)) {
    answer = ANSWERS[push.device.platform];
    const reply = await sendPush(providers[push.device.platform], push);
    const request = got.pop();
    if (request === undefined) {
      expect(reply).toMatchObject({ meaning: 'rejected', code: expect.stringMatching(/too-?large/i) as string });
      continue;
    }
    sent += 1;
    expect(reply).toMatchObject({ meaning: 'accepted' });
    expect(request.headers[':method']).toBe('POST');
    expect(request.headers.authorization).toBeDefined();
    expect(requestFaults(push, request, Date.now())).toEqual([]);
  }
  expect(got).toEqual([]);
  expect(sent).toBeGreaterThan(SENT);
});

type Providers = Readonly<Record<Platform, Provider>>;

/** Everything that the worker may send of a notification: to each device, loud, as a digest, and silent. */
function pushesOf(notification: Notification): Push[] {
  const { alert, devices, digest, id, liveActivity, pushType } = notification;
  const isSilent = pushType === 'background' || (pushType === 'liveactivity' && alert === undefined);
  return devices.flatMap((device, index) => {
    const push = { notification, device, pushId: pushId(id, index), silent: false };
    if (isSilent || liveActivity?.event === 'start') return [push]; // silent already, or must alert
    const asOne = { ...push, notification: asDigest(notification, MAX_DIGEST) };
    return [push, digest === undefined ? { ...push, silent: true } : asOne];
  });
}

/** What is wrong with a push as its provider encodes it; undefined: refused since it is too large, as it should be. */
function preparedFaults(push: Push, providers: Providers): string[] | undefined {
  const prepared = providers[push.device.platform].prepare(push);
  if (prepared.kind === 'ready') return requestFaults(push, prepared.encoded);
  const { code } = prepared.reply;
  if (!/too-?large/i.test(code) || !isTooLarge(push)) return [`refused as ${code}, but it fits`];
  const { onThrottle, onQuiet } = push.notification;
  const isNeverSent = push.silent && onThrottle !== 'silence' && onQuiet !== 'silence';
  return isNeverSent || payloadFaults(push.notification).length > 0
    ? undefined
    : ['refused as too large, but the producer did not refuse it'];
}

/** What is wrong with a push as it leaves, or as a server got it. */
function requestFaults(push: Push, request: WireRequest & Pick<Encoded, 'origin'>, nowMs = NOW_MS): string[] {
  const { silent, device } = push;
  if (device.platform === 'apns') return [...apnsFaults(request), ...(silent ? apnsLoudFaults(request) : [])];
  if (device.platform === 'fcm') return [...fcmFaults(request), ...(silent ? fcmLoudFaults(request) : [])];
  const { origin = new URL(device.endpoint).origin } = request;
  const whole = { ...request, origin, message: messageFor(device, request.body), nowMs };
  return [...webpushFaults(whole), ...(silent ? webpushLoudFaults(whole) : [])];
}

function messageFor(device: Device & { platform: 'webpush' }, body: string | Buffer): Buffer | undefined {
  const name = ENDPOINT_PATH.exec(new URL(device.endpoint).pathname)?.[1] ?? '';
  try {
    return decryptPush(Buffer.from(body as string), browserKeys(name));
  } catch {
    return undefined;
  }
}

/** By the bytes of what would have been sent. */
function isTooLarge({ notification, pushId: id, silent, device }: Push): boolean {
  const bytesOf = (value: object): number => Buffer.byteLength(JSON.stringify(value));
  const most = notification.channel === undefined ? 4_096 : 5_120;
  if (device.platform === 'apns') return bytesOf(apnsPayload(notification, silent, NOW_MS)) > most;
  if (device.platform === 'webpush') return bytesOf(webpushMessage(notification, { pushId: id, silent })) > 3_993;
  const options = { device, pushId: id, silent, nowMs: NOW_MS };
  return Math.max(...Object.values(fcmBytes(fcmMessage(notification, options)))) > 4_096;
}
