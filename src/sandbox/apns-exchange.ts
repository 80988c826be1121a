import { constants, type ServerHttp2Stream } from 'node:http2';
import type { Refuse } from './answers.ts';
import type { Exchange } from './loopback-server.ts';

/** Answers on an HTTP/2 stream as APNs does; `resetConnection` cuts what the stream runs on. */
export function apnsExchange(stream: ServerHttp2Stream, apnsId: string, resetConnection: () => void): Exchange {
  const respond = (status: number, headers: Readonly<Record<string, string>>, text: string) => {
    if (stream.destroyed || stream.closed) return; // the client has gone
    stream.respond({ ':status': status, 'apns-id': apnsId, ...headers });
    stream.end(text);
  };
  return {
    accept: () => respond(200, {}, ''),
    refuse: (answer) => respond(answer.status, refusalHeaders(answer), refusalBody(answer)),
    reset: (scope) => {
      if (scope === 'connection') resetConnection();
      else stream.close(scope === 'stream' ? constants.NGHTTP2_INTERNAL_ERROR : constants.NGHTTP2_REFUSED_STREAM);
    },
  };
}

function refusalHeaders({ retryAfter }: Refuse): Record<string, string> {
  return retryAfter === undefined ? {} : { 'retry-after': retryAfter };
}

function refusalBody({ reason, timestamp, emptyBody }: Refuse): string {
  return emptyBody === true ? '' : JSON.stringify({ reason, timestamp });
}
