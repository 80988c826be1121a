import { constants, type ServerHttp2Stream } from 'node:http2';
import type { Refuse } from './answers.ts';
import type { Peer } from './connections.ts';
import type { Exchange } from './loopback-server.ts';

/** Answers on an HTTP/2 stream as APNs does; `cut` resets the connection that the stream runs on. */
export function apnsExchange(
  stream: ServerHttp2Stream,
  apnsId: string,
  peer: Peer,
  cut: (peer: Peer) => void,
): Exchange {
  const respond = (status: number, headers: Readonly<Record<string, string>>, text: string) => {
    if (stream.destroyed || stream.closed) return; // the client has gone
    stream.respond({ ':status': status, 'apns-id': apnsId, ...headers });
    stream.end(text);
  };
  return {
    peer,
    accept: ({ body = '' }) => respond(200, {}, body),
    refuse: (answer) => respond(answer.status, refusalHeaders(answer), refusalBody(answer)),
    reset: (scope) => {
      if (scope === 'connection') cut(peer);
      else stream.close(scope === 'stream' ? constants.NGHTTP2_INTERNAL_ERROR : constants.NGHTTP2_REFUSED_STREAM);
    },
  };
}

function refusalHeaders({ retryAfter }: Refuse): Record<string, string> {
  return retryAfter === undefined ? {} : { 'retry-after': retryAfter };
}

function refusalBody({ reason, timestamp, emptyBody, body }: Refuse): string {
  return body ?? (emptyBody === true ? '' : JSON.stringify({ reason, timestamp }));
}
