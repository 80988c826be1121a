import { constants } from 'node:http2';
import type { ClientHttp2Session, ClientHttp2Stream } from 'node:http2';
import type { ApnsClient, RequestMaker } from './apns-types.ts';
import type { Outlet } from './outlet.ts';
import { StreamGate } from './stream-gate.ts';
import { currentWire } from './wire.ts';

/** What is known of a session of the client's. */
interface Known {
  readonly gate: StreamGate;
  readonly outlet: Outlet;
  /** The last stream that the server promised to have looked at, once it said goodbye. */
  lastStreamId: number;
}

/**
 * Corrects what the `apn` client does of its own accord: it retries, it cuts connections off under requests that APNs has
 * taken, it makes streams that leave when nobody looks, and it tells nobody how far a request got.
 *
 * @param onSession told of each new connection, when it begins to connect; gives its way out
 */
export function correctClient(client: ApnsClient, onSession: (session: ClientHttp2Session) => Outlet): void {
  const sessions = new WeakMap<RequestMaker, Known>();
  keepAnswers(client);
  drainSessions(client, (session) => {
    if (sessions.has(session)) return;
    const known: Known = { gate: new StreamGate(session), outlet: onSession(session), lastStreamId: Infinity };
    sessions.set(session, known);
    known.outlet.once('shut', () => {
      known.gate.shut();
      session.close(); // the next request gets a new one, and those under way may still be answered
    });
    // Twice where a server takes its leave in two steps; the second one tells the true last stream.
    session.on('goaway', (_code: number, lastStreamId: number) => {
      known.lastStreamId = lastStreamId;
    });
  });
  followRequests(client, (session) => {
    const known = sessions.get(session);
    if (known === undefined) throw new Error('apn: a request on a connection that was never announced');
    return known;
  });
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
  client.closeAndDestroySession = () => Promise.resolve();
  client.connect = async () => {
    await connect();
    if (client.session !== undefined) onSession(client.session);
  };
}

/** Makes a stream at the last moment and only if it may still leave; lets its try know it, and how far it got. */
function followRequests(client: ApnsClient, find: (session: RequestMaker) => Known): void {
  const request = client.request.bind(client);
  client.request = async (session, ...rest) => {
    const wire = currentWire();
    const known = find(session);
    const leave = (): void => known.gate.leave();
    await known.gate
      .enter((giveUp) => wire?.follow(giveUp, () => false))
      .catch((error: unknown) => {
        // The client hands on the fields of what it catches, and nothing else.
        throw Object.assign(new Error('no stream'), { error });
      });
    const made: ClientHttp2Stream[] = [];
    const followed: RequestMaker = {
      request(headers) {
        const stream = session.request(headers).once('close', leave);
        made.push(stream);
        if (wire !== undefined) {
          const forget = known.outlet.expect(wire.departure);
          stream.once('finish', forget).once('close', forget);
        }
        // The client looks for Retry-After in the wrong case, and forgets the status of what it cannot read.
        stream.once('response', (head) => {
          wire?.note({ status: head[':status'], retryAfter: head['retry-after'] });
        });
        wire?.follow(
          () => stream.close(constants.NGHTTP2_CANCEL),
          () => mayHaveArrived(stream, known.lastStreamId),
        );
        return stream;
      },
    };
    const mayLeave = wire?.mayLeave() ?? true;
    const answer = mayLeave ? request(followed, ...rest) : Promise.reject(new Error('too late to leave'));
    if (made.length === 0) leave();
    return answer;
  };
}

/** HTTP/2's promises that nothing was processed (RFC 9113, sections 6.8 and 8.7). */
function mayHaveArrived({ id, rstCode }: ClientHttp2Stream, lastStreamId: number): boolean {
  return id !== undefined && rstCode !== constants.NGHTTP2_REFUSED_STREAM && id <= lastStreamId;
}
