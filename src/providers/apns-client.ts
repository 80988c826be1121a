import { constants } from 'node:http2';
import type { ClientHttp2Session } from 'node:http2';
import type { ApnsClient, RequestMaker } from './apns-types.ts';
import { currentWire } from './wire.ts';

/**
 * Corrects what the `apn` client does of its own accord: it retries, it cuts connections off under requests that APNs has
 * taken, and it tells nobody how far a request got.
 *
 * @param onSession told of each new connection, when it begins to connect
 */
export function correctClient(client: ApnsClient, onSession: (session: ClientHttp2Session) => void): void {
  /** The last stream that a server promised to have looked at, for sessions that it said goodbye to. */
  const lastStreamIds = new WeakMap<RequestMaker, number>();
  keepAnswers(client);
  drainSessions(client, (session) => {
    // Twice where a server takes its leave in two steps; the second one tells the true last stream.
    session.on('goaway', (_code: number, lastStreamId: number) => {
      lastStreamIds.set(session, lastStreamId);
    });
    onSession(session);
  });
  followRequests(client, (session) => lastStreamIds.get(session) ?? Infinity);
}

/** The client's retry answers "client session is closed" in place of what APNs said, even where it may not retry. */
function keepAnswers(client: ApnsClient): void {
  // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the client rejects with plain objects, and expects them back
  client.retryRequest = (failure) => Promise.reject(failure);
}

/**
 * On GOAWAY, Node itself closes a session once its streams have ended; the client then destroys it under them, and
 * accepted requests are reported as failed. It also closes a session after a 500. Here only its owner ends a session.
 */
function drainSessions(client: ApnsClient, onSession: (session: ClientHttp2Session) => void): void {
  const connect = client.connect.bind(client);
  const known = new WeakSet<ClientHttp2Session>();
  client.closeAndDestroySession = () => Promise.resolve();
  client.connect = async () => {
    await connect();
    const { session } = client;
    if (session === undefined || known.has(session)) return;
    known.add(session);
    onSession(session);
  };
}

/** Lets a try know its stream, so that it can be taken back, and how far it got. */
function followRequests(client: ApnsClient, lastStreamId: (session: RequestMaker) => number): void {
  const request = client.request.bind(client);
  client.request = (session, ...rest) => {
    const wire = currentWire();
    if (wire?.isCut) return Promise.reject(new Error('the caller waits no longer'));
    const followed: RequestMaker = {
      request(headers) {
        const stream = session.request(headers);
        const mayHaveArrived = (): boolean => {
          if (stream.id === undefined || stream.rstCode === constants.NGHTTP2_REFUSED_STREAM) return false;
          return stream.id <= lastStreamId(session);
        };
        wire?.follow(() => {
          // Closing a stream that waits for the connection would send the request first, and cancel it then.
          if (stream.pending) stream.destroy();
          else stream.close(constants.NGHTTP2_CANCEL);
        }, mayHaveArrived);
        return stream;
      },
    };
    return request(followed, ...rest);
  };
}
