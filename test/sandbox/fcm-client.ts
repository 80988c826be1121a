import { readFile } from 'node:fs/promises';
import type { IncomingHttpHeaders } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import { onTestFinished } from 'vitest';
import type { Sandbox } from '../../sandbox/sandbox.ts';

export interface FcmRequest {
  readonly path?: string;
  readonly method?: string;
  /** The whole Authorization header; null for none. */
  readonly authorization?: string | null;
  /** Sent as it is. */
  readonly text?: string;
}

export interface FcmReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A raw client: what it sends is what the test says. */
export interface FcmClient {
  /** Posts `{ message }`. Rejects where no answer comes. */
  send(message: unknown, request?: FcmRequest): Promise<FcmReply>;
}

function sendPath(sandbox: Sandbox): string {
  return `/v1/projects/${sandbox.env()['FCM_PROJECT_ID'] ?? ''}/messages:send`;
}

/** Gives an HTTP/1.1 client that is closed when the test ends. */
export async function connectFcm(sandbox: Sandbox, maxSockets = 1): Promise<FcmClient> {
  const agent = new Agent({ keepAlive: true, maxSockets, ca: await readFile(sandbox.caFile) });
  onTestFinished(() => agent.destroy());
  const defaultPath = sendPath(sandbox);
  return {
    send: (message, { path = defaultPath, method = 'POST', authorization = 'Bearer owner', text } = {}) =>
      new Promise((resolve, reject) => {
        const headers = { 'content-type': 'application/json', ...(authorization === null ? {} : { authorization }) };
        const outgoing = httpsRequest(`${sandbox.fcm.url}${path}`, { agent, method, headers }, (response) => {
          let body = '';
          response.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
          response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body }));
          response.on('error', reject);
        });
        outgoing.on('error', reject);
        outgoing.end(text ?? JSON.stringify({ message }));
      }),
  };
}

/** Google's error in an answer. */
export interface RpcError {
  readonly code: number;
  readonly status: string;
  readonly message: string;
  readonly details?: readonly { '@type': string; errorCode?: string; fieldViolations?: readonly { field: string }[] }[];
}

function rpcError({ body }: FcmReply): RpcError {
  return (JSON.parse(body) as { error: RpcError }).error;
}

/** What an error says in short: `{ http, status, errorCode, fields }`. */
export function verdict(reply: FcmReply) {
  const { status, details = [] } = rpcError(reply);
  return {
    http: reply.status,
    status,
    errorCode: details.find(({ errorCode }) => errorCode !== undefined)?.errorCode,
    fields: details.flatMap(({ fieldViolations = [] }) => fieldViolations.map(({ field }) => field)),
  };
}
