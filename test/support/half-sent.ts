import { once } from 'node:events';
import { request as open, type IncomingMessage } from 'node:http';

export interface HalfSent {
  /** Sends the rest, and resolves to the answer. */
  finish(): Promise<{ readonly status: number; readonly text: string }>;
  /** The answer, without the rest being sent. */
  answer(): Promise<{ readonly status: number; readonly text: string }>;
  /** Closes the connection. */
  leave(): void;
}

/** Sends the head of a POST and one half of its body. Resolves when the server has taken the head, and so has begun to answer. */
export async function sendHalf(url: string, secret: string, body: string): Promise<HalfSent> {
  const headers = {
    ...{ authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    ...{ 'content-length': Buffer.byteLength(body), expect: '100-continue' },
  };
  const request = open(url, { method: 'POST', headers });
  const answered = once(request, 'response') as Promise<[IncomingMessage]>;
  answered.catch(() => undefined);
  request.flushHeaders();
  await once(request, 'continue');
  const half = Math.floor(body.length / 2);
  await new Promise((resolve) => request.write(body.slice(0, half), resolve));
  const answer: HalfSent['answer'] = async () => {
    const [response] = await answered;
    let text = '';
    for await (const chunk of response.setEncoding('utf8')) text += String(chunk);
    request.destroy();
    return { status: response.statusCode ?? 0, text };
  };
  return {
    answer,
    finish() {
      request.end(body.slice(half));
      return answer();
    },
    leave: () => void request.on('error', () => undefined).destroy(),
  };
}
