import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import express from 'express';
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { expect, it, onTestFinished } from 'vitest';
import { startEmbeddedRedis } from '../../../sandbox/redis/embedded-redis.ts';
import { expressLimit } from '../../../src/http/express.ts';
import { fastifyLimit } from '../../../src/http/fastify.ts';
import { createMemoryLimiter } from '../../../src/limiter/memory/memory-limiter.ts';
import { urlOf } from '../../support/listen.ts';
import { startProcess } from '../../support/process.ts';
import { exampleFolder } from '../../support/program.ts';
import { httpContract } from '../../http/contract.ts';

httpContract('Express', async ({ refuseWith, ...options }) => {
  let served = 0;
  const app = express();
  app.set('env', 'test'); // its own error handling writes no stack to standard error
  app.use(
    expressLimit<express.Request, express.Response>({
      ...options,
      ...(refuseWith && { refuse: (_request, response, refusal) => response.send(refuseWith(refusal)) }),
    }),
  );
  app.get('/', (_request, response) => {
    served += 1;
    response.send('served');
  });
  return { url: await urlOf(createServer(app)), served: () => served };
});

it('knows the types of Express where it is used, for one route too', async () => {
  const app = express();
  app.get('/users/:id', expressLimit({ limiter: oneAMinute(), key: (request) => request.ip }), (request, response) => {
    response.send(request.params.id);
  });
  const url = await urlOf(createServer(app));
  expect(await fetch(`${url}/users/7`).then((response) => response.text())).toBe('7');
  expect((await fetch(`${url}/users/8`)).status).toBe(429);
});

it('Express gets what the refusal throws', async () => {
  const app = express();
  app.use(expressLimit({ limiter: oneAMinute(), key: () => 'everybody', refuse: failing }));
  app.get('/', (_request, response) => void response.send('served'));
  const answerError: express.ErrorRequestHandler = (error: Error, _request, response, next) => {
    if (response.headersSent) next(error);
    else response.send(error.message);
  };
  app.use(answerError);
  await expectTryLater(await urlOf(createServer(app)));
});

it.each([undefined, null, '', 'route', 'router'])(
  'lets nobody through where the key rejects with %o',
  async (reason) => {
    const app = express();
    app.set('env', 'test');
    app.use(expressLimit({ limiter: oneAMinute(), key: () => Promise.reject(reason) })); // eslint-disable-line @typescript-eslint/prefer-promise-reject-errors -- that is the point
    app.get('/', (_request, response) => void response.send('served'));
    expect((await fetch(await urlOf(createServer(app)))).status).toBe(500);
  },
);

httpContract('Fastify', async ({ refuseWith, ...options }) => {
  let served = 0;
  const app = fastify({ forceCloseConnections: true });
  app.addHook(
    'onRequest',
    fastifyLimit<FastifyRequest, FastifyReply>({
      ...options,
      ...(refuseWith && { refuse: (_request, reply, refusal) => reply.send(refuseWith(refusal)) }),
    }),
  );
  app.get('/', () => {
    served += 1;
    return 'served';
  });
  return { url: await listenFastify(app), served: () => served };
});

it('limits one route, and has the types of Fastify where they are given', async () => {
  const app = fastify({ forceCloseConnections: true });
  const onRequest = fastifyLimit({ limiter: oneAMinute(), key: (request: FastifyRequest) => request.id.slice(0, 3) });
  app.get('/limited', { onRequest }, () => 'served');
  app.get('/free', () => 'served');
  const url = await listenFastify(app);
  const statuses: number[] = [];
  for (const path of ['limited', 'limited', 'free']) statuses.push((await fetch(`${url}/${path}`)).status);
  expect(statuses).toEqual([200, 429, 200]);
});

it('limits by the body in a later hook', async () => {
  const app = fastify({ forceCloseConnections: true });
  const key = ({ body }: FastifyRequest): string => (body as { user: string }).user;
  app.post('/', { preHandler: fastifyLimit({ limiter: oneAMinute(), key }) }, () => 'served');
  const url = await listenFastify(app);
  const headers = { 'content-type': 'application/json' };
  const statuses: number[] = [];
  for (const user of ['a', 'a', 'b']) {
    statuses.push((await fetch(url, { method: 'POST', headers, body: JSON.stringify({ user }) })).status);
  }
  expect(statuses).toEqual([200, 429, 200]);
});

it('Fastify gets what the refusal throws', async () => {
  const app = fastify({ forceCloseConnections: true });
  app.addHook('onRequest', fastifyLimit({ limiter: oneAMinute(), key: () => 'everybody', refuse: failing }));
  app.get('/', () => 'served');
  app.setErrorHandler((error: Error, _request, reply) => reply.send(error.message));
  await expectTryLater(await listenFastify(app));
});

it.each(['express', 'fastify'])('%s runs as the example shows', runExample);

const oneAMinute = () => createMemoryLimiter({ policy: { rules: [{ max: 1, perMs: 60_000 }], minGapMs: 0 } });

const failing = (): never => {
  throw new Error('try later');
};

/** What the application's own error handling answers to the second request. */
async function expectTryLater(url: string): Promise<void> {
  await fetch(url);
  const answer = await fetch(url);
  expect({ status: answer.status, text: await answer.text() }).toEqual({ status: 429, text: 'try later' });
}

async function listenFastify(app: FastifyInstance): Promise<string> {
  onTestFinished(() => app.close());
  return app.listen({ port: 0, host: '127.0.0.1' });
}

const ROOT = process.cwd();

/** A key that both examples gave out. */
const KNOWN = { 'x-api-key': 'a-long-random-key' };

/** What a client can write as it likes, another one with each request. */
function madeUp(index: number): Record<string, string> {
  return { 'x-api-key': index === 0 ? '' : `made-up-${index}`, 'x-forwarded-for': `192.0.2.${index}` };
}

/** Runs an example as a user would, but against the sources, and asks it as clients would that mean well and ill. */
async function runExample(name: string): Promise<void> {
  const redis = await startEmbeddedRedis();
  onTestFinished(() => redis.close());
  const folder = await exampleFolder();
  const source = await readFile(`examples/${name}.ts`, 'utf8');
  expect(source).toContain("from 'pushpacer'");
  const file = join(folder, 'example.mts');
  await writeFile(file, source.replace("'pushpacer'", JSON.stringify(join(ROOT, 'src/index.ts'))));

  const example = startProcess({ args: [file], env: { REDIS_URL: redis.url, PORT: '0' } });
  const url = (await example.waitForLine(/^listening on /)).replace('listening on ', '');

  const answers: Response[] = [];
  for (let asks = 0; asks < 4; asks += 1) answers.push(await fetch(url, { headers: KNOWN }));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
  expect(await answers[0]?.json()).toEqual({ hello: 'world' });
  expect(answers[0]?.headers.get('ratelimit')).toBe('"3/10s";r=2;t=10');
  expect(answers[0]?.headers.get('ratelimit-policy')).toBe('"3/10s";q=3;w=10');
  expect(Number(answers[3]?.headers.get('retry-after'))).toBeGreaterThan(5);

  const made = await Promise.all(Array.from({ length: 100 }, (_, index) => fetch(url, { headers: madeUp(index) })));
  expect(made.filter(({ status }) => status === 200)).toHaveLength(3);
  expect(made.filter(({ status }) => status === 429)).toHaveLength(97);
  expect((await fetch(url)).status).toBe(429); // the same address, with no key at all

  example.kill('SIGTERM');
  expect(await example.waitForExit()).toMatchObject({ code: 0, stderr: '' });
}
