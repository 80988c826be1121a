import { once } from 'node:events';
import { connect } from 'node:http2';
import type { NotificationInput } from '../../src/domain/notification.ts';
import type { BenchPlatform } from './case.ts';
import { plainTarget, type Variables } from './plain-requests.ts';

/** Sends to the first device of a notification over one raw HTTP/2 session. Rejects where the answer is not 200. */
export async function openPlainSession(
  platform: BenchPlatform,
  env: Variables,
): Promise<(notification: NotificationInput) => Promise<void>> {
  const { endpoint, ca, requestOf } = await plainTarget(platform, env);
  const session = connect(endpoint, { ca });
  // Once Node knows how many streams the server allows, a request beyond them waits inside of it until one is free. Before
  // that it sends up to 100 at once, and APNs allows one until it has accepted a token.
  await once(session, 'remoteSettings');

  return async (notification) => {
    const { headers, body } = requestOf(notification);
    const stream = session.request(headers);
    let status: number | undefined;
    stream.once('response', (head) => (status = head[':status'])).resume();
    stream.end(body);
    await once(stream, 'end');
    if (status !== 200) throw new Error(`expected status 200, found ${status}`);
  };
}
