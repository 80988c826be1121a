import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { serveControl } from '../../sandbox/control.ts';
import { serveMetrics } from '../../src/observe/server.ts';
import { openApi } from '../support/api.ts';
import { openConsole } from '../support/console.ts';
import { openSandbox } from '../support/sandbox.ts';

/** What may stand in the first line of a request, and what no client library sends. */
const TARGETS = [
  ...['//', '///', '//[', '//:0', '//a b', '/\\', '\\', '/%', '/%zz', '/v1/notifications/%ff', '*', '?', '#', 'x'],
  ...['http://', 'http://[', 'http://a:99999/', 'https://z/', 'file:///etc', 'http:', '/?a=%', '/\x80\xff', '/\0'],
];
const METHODS = ['GET', 'POST', 'OPTIONS', 'CONNECT', 'BREW'];
const HOSTS = ['Host: localhost', 'Host: [', 'Host: a b', 'Host: //', 'Host:', 'X: no host', 'Host: \x80'];

const REQUESTS = [
  ...METHODS.flatMap((method) => TARGETS.map((target) => `${method} ${target} HTTP/1.1\r\nHost: localhost`)),
  ...HOSTS.flatMap((host) => ['1.0', '1.1'].map((version) => `GET / HTTP/${version}\r\n${host}`)),
  'GET / HTTP/1.1\r\nHost: localhost\r\nExpect: tea',
  'GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: tea\r\nConnection: upgrade',
];

/** No `Request` of the web can be made of a URL with a password: Hono answers 500. */
const WITH_PASSWORD = 'GET https://x:y@z/ HTTP/1.1\r\nHost: localhost';

/** Sends the bytes as they are, and answers what comes until the connection ends: at the latest after five seconds of silence. */
async function sendRaw(url: string, head: string): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname).setEncoding('latin1');
  let answer = '';
  socket.on('data', (text: string) => (answer += text));
  socket.on('error', () => undefined); // it may be ended before all is read
  socket.setTimeout(5_000, () => socket.destroy());
  // Not `end`: a server may take a connection that is half closed for a client that has gone.
  socket.write(Buffer.from(`${head}\r\nConnection: close\r\n\r\n`, 'latin1'));
  await once(socket, 'close');
  return answer;
}

const SERVERS: Readonly<Record<string, () => Promise<string>>> = {
  async 'the pages of a worker'() {
    const pages = {
      metrics: () => Promise.resolve({ contentType: 'text/plain', body: '' }),
      sick: () => undefined,
      ready: () => Promise.resolve({ ok: true, detail: {} }),
    };
    const server = await serveMetrics({ host: '127.0.0.1', port: 0 }, pages, () => undefined);
    onTestFinished(() => server.close());
    return server.url;
  },
  async 'the HTTP API'() {
    return (await openApi()).url;
  },
  async 'the console'() {
    return (await openConsole()).url;
  },
  async 'the control endpoint of the sandbox'() {
    const control = await serveControl(await openSandbox(), { port: 0, host: '127.0.0.1', name: undefined });
    onTestFinished(() => control.close());
    return `http://127.0.0.1:${control.port}`;
  },
};

// A throw outside of every promise would end the process; in a test it fails the run, and the request has no answer.
for (const [name, open] of Object.entries(SERVERS)) {
  it(`${name}: no form of a request ends the process, and each is answered`, async () => {
    const url = await open();
    const faults: string[] = [];
    for (const request of REQUESTS) {
      const answer = await sendRaw(url, request);
      // Node ends a CONNECT without an answer.
      if (answer === '' ? !request.startsWith('CONNECT') : !/^HTTP\/1\.1 [1-4]/.test(answer)) {
        faults.push(`${JSON.stringify(request)}: ${JSON.stringify(answer.slice(0, 80))}`);
      }
    }
    expect(faults).toEqual([]);
    expect(await sendRaw(url, WITH_PASSWORD)).toMatch(/^HTTP\/1\.1 \d/);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
  });
}
