import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { Webhook } from 'standardwebhooks';
import { expect, it, onTestFinished } from 'vitest';
import type { Outcome } from '../../src/notification/outcome.ts';
import { outcomesKey } from '../../src/queue/names.ts';
import { portOf } from '../support/listen.ts';
import { startProcess, type TestProcess } from '../support/process.ts';
import { connectRedis, redisEnv, testPrefix } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';
import { openOutcomes, outcome } from './streams.ts';

const SECRET = `whsec_${Buffer.from('a key of thirty-two random bytes').toString('base64')}`;
const GROUP = 'outcome-webhooks';

interface Received {
  readonly webhookId: string;
  readonly id: string;
  /** `performance.now()` */
  readonly at: number;
  readonly body: { readonly type: string; readonly timestamp: string; readonly data: Record<string, unknown> };
}

/** A receiver that verifies each signature as its library does. */
async function openReceiver(answer: (request: Received, response: ServerResponse) => void) {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    void text(request).then((payload) => {
      const body = new Webhook(SECRET).verify(payload, headersOf(request.headers)) as Received['body'];
      const webhookId = String(request.headers['webhook-id']);
      const one = { webhookId, id: String(body.data['id']), at: performance.now(), body };
      received.push(one);
      answer(one, response);
    });
  });
  const url = `http://127.0.0.1:${await portOf(server)}/outcomes`;
  onTestFinished(() => server.closeAllConnections());
  return { received, url };
}

function headersOf(headers: IncomingHttpHeaders): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
}

function startRelay(prefix: string, url: string, env: Readonly<Record<string, string>> = {}): TestProcess {
  const own = { ...redisEnv(), QUEUE_PREFIX: prefix, TAKE_OVER_AFTER_MS: '300', RETRY_BASE_MS: '50' };
  const webhook = { WEBHOOK_URL: url, WEBHOOK_SECRET: SECRET };
  return startProcess({ args: ['examples/outcome-webhooks/relay.ts'], env: { ...own, ...webhook, ...env } });
}

function openStream() {
  const [redis, prefix] = [connectRedis(), testPrefix()];
  const onLost = (_: Outcome, error: unknown): never => {
    throw error;
  };
  const { outcomes } = openOutcomes(redis, { prefix, insistMs: 1_000, onLost });
  const write = (...ids: string[]) => Promise.all(ids.map((id) => outcomes.write(outcome(id))));
  /** How many entries no relay has acknowledged; undefined before there is a group. */
  const pending = async () => ((await redis.xpending(outcomesKey(prefix), GROUP).catch(() => [])) as [number?])[0];
  return { redis, prefix, write, pending };
}

const ids = (count: number) => Array.from({ length: count }, (_, index) => `msg-${index}`);
const accept = (_: Received, response: ServerResponse) => void response.writeHead(204).end();

async function stopped(relay: TestProcess): Promise<string> {
  relay.kill('SIGTERM');
  const { code, stderr } = await relay.waitForExit();
  expect(code).toBe(0);
  return stderr;
}

it('each outcome is posted as JSON, signed, and acknowledged; a copy of it has the same id', async () => {
  const { prefix, write, pending } = openStream();
  const { received, url } = await openReceiver(accept);
  await write('msg-1');
  const relay = startRelay(prefix, url);
  await waitFor(() => expect(received).toHaveLength(1));
  await write('msg-2', 'msg-1');
  await waitFor(() => expect(received).toHaveLength(3));
  await waitFor(async () => expect(await pending()).toBe(0));
  expect(await stopped(relay)).toBe('');

  const [first] = received;
  const { devices, ...fields } = outcome('msg-1');
  expect(first?.body).toEqual({
    type: 'notification.delivered',
    timestamp: expect.stringMatching(/^\d{4}-.*Z$/) as string,
    data: { ...fields, devices },
  });
  const byId = Map.groupBy(received, ({ id }) => id);
  expect(new Set(byId.get('msg-1')?.map(({ webhookId }) => webhookId)).size).toBe(1);
  expect(byId.get('msg-2')?.[0]?.webhookId).not.toBe(first?.webhookId);
  expect(first?.webhookId).toMatch(/^msg_[\w-]{27}$/);
});

it('what the receiver does not accept is posted again, and does not delay the others', async () => {
  const { prefix, write, pending } = openStream();
  const answers: Record<string, [status: number, headers?: Record<string, string>][]> = {
    'msg-0': [[500], [404]],
    'msg-1': [[429, { 'retry-after': '1' }]],
    'msg-2': [[302, { location: '/elsewhere' }]],
  };
  const { received, url } = await openReceiver(({ id }, response) => {
    const [status, headers] = answers[id]?.shift() ?? [200];
    if (id === 'msg-3' && received.filter((each) => each.id === id).length === 1) response.destroy();
    else response.writeHead(status, headers).end();
  });
  const relay = startRelay(prefix, url);
  await write(...ids(6));
  await waitFor(() => expect(received).toHaveLength(11));
  await waitFor(async () => expect(await pending()).toBe(0));
  const counts = Object.entries(Object.groupBy(received, ({ id }) => id)).map(([id, all]) => [id, all?.length]);
  const tries = { 'msg-0': 3, 'msg-1': 2, 'msg-2': 2, 'msg-3': 2, 'msg-4': 1, 'msg-5': 1 };
  expect(Object.fromEntries(counts)).toEqual(tries);
  const [asked = 0, again = 0] = received.filter(({ id }) => id === 'msg-1').map(({ at }) => at);
  expect(again - asked).toBeGreaterThan(950);
  const output = await stopped(relay);
  expect(output).toMatch(/the receiver answered 500; again in \d\.\d s/);
  expect(output).not.toContain('teacher-42');
});

it('nothing is lost if a relay is killed: another one takes over what it had', async () => {
  const { prefix, write, pending } = openStream();
  let isOpen = false;
  const { received, url } = await openReceiver((one, response) => {
    if (isOpen) accept(one, response); // before, the receiver hangs
  });
  await write(...ids(120));
  const first = startRelay(prefix, url);
  await waitFor(() => expect(received).toHaveLength(50)); // as many as it has under way at once
  first.kill('SIGKILL');
  await first.waitForExit();
  expect(await pending()).toBe(50);
  isOpen = true;
  const second = startRelay(prefix, url);
  await waitFor(() => expect(new Set(received.slice(50).map(({ id }) => id))).toEqual(new Set(ids(120))));
  await waitFor(async () => expect(await pending()).toBe(0));
  await stopped(second);
});

it.each([[{ WEBHOOK_URL: '' }], [{ WEBHOOK_SECRET: 'not a secret' }]])(
  'it does not start with %j, and repeats no secret',
  async (env) => {
    const { code, stderr } = await startRelay(testPrefix(), 'http://127.0.0.1:1/', env).waitForExit();
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: 'WEBHOOK_URL: expected a URL; WEBHOOK_SECRET: expected whsec_ and 24 to 64 bytes as base64\n',
    });
  },
);
