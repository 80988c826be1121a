import { createPrivateKey, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type OutgoingHttpHeaders } from 'node:http2';
import { Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { SignJWT } from 'jose';
import { tokenOf } from '../../src/notification/device.ts';
import type { ToDevices } from '../../src/notification/notification.ts';
import { KEEP_ALL, KEEP_COMPLETED, QUEUE } from '../../src/queue/names.ts';
import type { BenchPlatform } from './run.ts';

/**
 * The worker that pushpacer is compared with: BullMQ's own Worker on the same queue, and one raw HTTP/2 session. No check, no
 * limiter, no log, no metrics, no retry. It reads pushpacer's variables; the platform is its argument.
 */
async function main(platform: BenchPlatform): Promise<void> {
  const send = await openPlainSession(platform);
  const worker = new Worker(QUEUE, ({ data }) => send(data as ToDevices), {
    connection: new Redis(variable('REDIS_URL'), { maxRetriesPerRequest: null }),
    prefix: variable('QUEUE_PREFIX'),
    concurrency: Number(variable('WORKER_CONCURRENCY')),
    drainDelay: 1,
    removeOnComplete: KEEP_COMPLETED,
    removeOnFail: KEEP_ALL,
  });
  endWithParent(worker);
}

/** The worker ends on SIGTERM, and with the process that started it. */
export function endWithParent(worker: Worker): void {
  worker.on('failed', (_job, error) => process.stderr.write(`${error.message}\n`));
  const stop = (): void => void worker.close().then(() => process.exit(0));
  process.once('SIGTERM', stop).once('disconnect', stop);
}

export type Send = (notification: ToDevices) => Promise<void>;

/** Sends to the first device of a notification over one raw HTTP/2 session. Rejects where the answer is not 200. */
export async function openPlainSession(platform: BenchPlatform): Promise<Send> {
  const { endpoint, ca, requestOf } = platform === 'apns' ? await apns() : fcm();
  const session = connect(endpoint, { ca });
  // Once Node knows how many streams the server allows, a request beyond them waits inside of it until one is free. Before
  // that it sends up to 100 at once, and APNs allows one until it has accepted a token.
  await once(session, 'remoteSettings');

  return async (notification) => {
    const { headers, body } = requestOf(notification);
    const stream = session.request({ ':method': 'POST', ...headers });
    let status: number | undefined;
    stream.once('response', (head) => (status = head[':status'])).resume();
    stream.end(JSON.stringify(body));
    await once(stream, 'end');
    if (status !== 200) throw new Error(`expected status 200, found ${status}`);
  };
}

/** Where one platform is, and how its requests look: what pushpacer sends for the same notification, without its checks. */
interface Target {
  readonly endpoint: string;
  /** PEM of the authority that signed the server's certificate. */
  readonly ca: string;
  readonly requestOf: (notification: ToDevices) => {
    readonly headers: OutgoingHttpHeaders;
    readonly body: object;
  };
}

/** developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns */
async function apns(): Promise<Target> {
  const key = createPrivateKey(readFileSync(variable('APNS_KEY_FILE')));
  const jwt = await new SignJWT()
    .setProtectedHeader({ alg: 'ES256', kid: variable('APNS_KEY_ID') })
    .setIssuer(variable('APNS_TEAM_ID'))
    .setIssuedAt()
    .sign(key);
  const topic = variable('APNS_TOPIC');
  return {
    endpoint: variable('APNS_ENDPOINT'),
    ca: readFileSync(variable('APNS_CA_FILE'), 'utf8'),
    requestOf({ devices, alert }) {
      const id = randomUUID();
      const headers = {
        ':path': `/3/device/${devices.map(tokenOf).join()}`,
        authorization: `bearer ${jwt}`,
        'apns-topic': topic,
        'apns-push-type': 'alert',
        'apns-priority': '10',
        'apns-id': id,
        'apns-collapse-id': id,
      };
      return { headers, body: { aps: { alert } } };
    },
  };
}

/** firebase.google.com/docs/reference/fcm/rest/v1/projects.messages/send */
function fcm(): Target {
  const headers = {
    ':path': `/v1/projects/${variable('FCM_PROJECT_ID')}/messages:send`,
    authorization: 'Bearer owner',
    'content-type': 'application/json',
  };
  return {
    endpoint: variable('FCM_ENDPOINT'),
    ca: readFileSync(variable('FCM_CA_FILE'), 'utf8'),
    requestOf({ devices, alert }) {
      const android = { priority: 'normal', notification: { tag: randomUUID() } };
      const message = { token: devices.map(tokenOf).join(), notification: alert, android };
      return { headers, body: { message } };
    },
  };
}

/** A variable of the environment that also says to pushpacer's worker where Redis and the providers are. */
export function variable(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new TypeError(`${name}: expected a value, found none`);
  return value;
}

if (import.meta.main) await main(process.argv[2] as BenchPlatform);
