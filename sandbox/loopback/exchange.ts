import type { ServerResponse } from 'node:http';
import { constants, type ServerHttp2Stream } from 'node:http2';
import type { Readable } from 'node:stream';
import { isObject, parseJson } from '../../src/domain/json.ts';
import type { Accept, Refuse, Reset } from './answers.ts';
import type { Peer } from './connections.ts';

/** The body, cut after `mostBytes` + 1; undefined if the client gave up before its end. */
export function readBody(stream: Readable, mostBytes: number): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    stream.on('data', (chunk: Buffer) => {
      if (bytes <= mostBytes) chunks.push(chunk);
      bytes += chunk.length;
    });
    stream.once('end', () => resolve(Buffer.concat(chunks).subarray(0, mostBytes + 1)));
    stream.once('close', () => resolve(undefined)); // changes nothing after `end`
    stream.on('error', () => resolve(undefined));
  });
}

/** The JSON object in a body; undefined if it is not one. */
export function parseJsonObject(body: Buffer): Record<string, unknown> | undefined {
  const value = parseJson(body.toString('utf8'));
  return isObject(value) ? value : undefined;
}

/** One request, and the three ways to end it. */
export interface Exchange {
  accept(answer: Accept): void;
  refuse(answer: Refuse): void;
  reset(scope: NonNullable<Reset['scope']>): void;
}

/** Headers and body of an answer. */
interface Content {
  /** Of an acceptance. Default: 200. */
  readonly status?: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

/** Makes the provider's answers to one request. */
export interface Wording {
  accepted(answer: Accept): Content;
  refused(answer: Refuse): Content;
}

/** Resets the connection from that peer. */
export type Cut = (peer: Peer) => void;

type Respond = (status: number, content: Content) => void;

function answersBy(respond: Respond, wording: Wording): Pick<Exchange, 'accept' | 'refuse'> {
  return {
    accept: (answer) => {
      const content = wording.accepted(answer);
      respond(content.status ?? 200, content);
    },
    refuse: (answer) => {
      respond(answer.status, wording.refused(answer));
    },
  };
}

/** Answers on an HTTP/2 stream. */
export function http2Exchange(stream: ServerHttp2Stream, peer: Peer, wording: Wording, cut: Cut): Exchange {
  const respond: Respond = (status, { headers, text }) => {
    if (stream.destroyed || stream.closed) return; // the client has gone
    stream.respond({ ':status': status, ...headers });
    stream.end(text);
  };
  return {
    ...answersBy(respond, wording),
    reset: (scope) => {
      if (stream.destroyed) return; // the connection has ended, and its port may belong to another one by now
      if (scope === 'connection') cut(peer);
      else stream.close(scope === 'stream' ? constants.NGHTTP2_INTERNAL_ERROR : constants.NGHTTP2_REFUSED_STREAM);
    },
  };
}

/** Answers over HTTP/1.1, where a reset of any scope takes the connection. */
export function http1Exchange(response: ServerResponse, peer: Peer, wording: Wording, cut: Cut): Exchange {
  const respond: Respond = (status, { headers, text }) => {
    if (response.destroyed) return; // the client has gone
    response.writeHead(status, headers);
    response.end(text);
  };
  return {
    ...answersBy(respond, wording),
    reset: () => {
      if (!response.destroyed) cut(peer);
    },
  };
}
