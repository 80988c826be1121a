import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { expect, it, onTestFinished } from 'vitest';
import { fastifyLimit } from '../../src/http/fastify.ts';
import { createMemoryLimiter } from '../../src/limiter/memory/memory-limiter.ts';
import { httpContract } from './contract.ts';
import { runExample } from './example.ts';

const POLICY = { rules: [{ max: 1, perMs: 60_000 }], minGapMs: 0 };

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
  return { url: await listen(app), served: () => served };
});

it('limits one route, and knows the types of Fastify where it is told them', async () => {
  const limiter = createMemoryLimiter({ policy: POLICY });
  const app = fastify({ forceCloseConnections: true });
  const onRequest = fastifyLimit({ limiter, key: (request: FastifyRequest) => request.id.slice(0, 3) });
  app.get('/limited', { onRequest }, () => 'served');
  app.get('/free', () => 'served');
  const url = await listen(app);
  const statuses: number[] = [];
  for (const path of ['limited', 'limited', 'free']) statuses.push((await fetch(`${url}/${path}`)).status);
  expect(statuses).toEqual([200, 429, 200]);
});

it('limits by the body in a later hook', async () => {
  const limiter = createMemoryLimiter({ policy: POLICY });
  const app = fastify({ forceCloseConnections: true });
  const key = ({ body }: FastifyRequest): string => (body as { user: string }).user;
  app.post('/', { preHandler: fastifyLimit({ limiter, key }) }, () => 'served');
  const url = await listen(app);
  const headers = { 'content-type': 'application/json' };
  const statuses: number[] = [];
  for (const user of ['a', 'a', 'b']) {
    statuses.push((await fetch(url, { method: 'POST', headers, body: JSON.stringify({ user }) })).status);
  }
  expect(statuses).toEqual([200, 429, 200]);
});

it('hands what the refusal throws to the error handling of the application', async () => {
  const limiter = createMemoryLimiter({ policy: POLICY });
  const app = fastify({ forceCloseConnections: true });
  const refuse = (): never => {
    throw new Error('try later');
  };
  app.addHook('onRequest', fastifyLimit({ limiter, key: () => 'everybody', refuse }));
  app.get('/', () => 'served');
  app.setErrorHandler((error: Error, _request, reply) => reply.send(error.message));
  const url = await listen(app);
  await fetch(url);
  const { status, text } = await fetch(url).then(async (answer) => ({
    status: answer.status,
    text: await answer.text(),
  }));
  expect({ status, text }).toEqual({ status: 429, text: 'try later' });
});

it('runs as the example shows', () => runExample('fastify'));

async function listen(app: FastifyInstance): Promise<string> {
  onTestFinished(() => app.close());
  return app.listen({ port: 0, host: '127.0.0.1' });
}
