import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { expect, it, onTestFinished } from 'vitest';
import { expressLimit } from '../../src/http/express.ts';
import { createMemoryLimiter } from '../../src/limiter/memory/memory-limiter.ts';
import { httpContract } from './contract.ts';
import { runExample } from './example.ts';

const POLICY = { rules: [{ max: 1, perMs: 60_000 }], minGapMs: 0 };

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
  return { url: await listen(createServer(app)), served: () => served };
});

httpContract('node:http', async ({ refuseWith, ...options }) => {
  let served = 0;
  const limit = expressLimit<IncomingMessage, ServerResponse>({
    ...options,
    ...(refuseWith && { refuse: (_request, response, refusal) => response.end(refuseWith(refusal)) }),
  });
  const server = createServer((request, response) => {
    limit(request, response, (error) => {
      if (error === undefined) served += 1;
      else response.statusCode = 500;
      response.end(error === undefined ? 'served' : 'failed');
    });
  });
  return { url: await listen(server), served: () => served };
});

it('knows the types of Express where it is used, for one route too', async () => {
  const limiter = createMemoryLimiter({ policy: POLICY });
  const app = express();
  app.get('/users/:id', expressLimit({ limiter, key: (request) => request.ip }), (request, response) => {
    response.send(request.params.id);
  });
  const url = await listen(createServer(app));
  expect(await fetch(`${url}/users/7`).then((response) => response.text())).toBe('7');
  expect((await fetch(`${url}/users/8`)).status).toBe(429);
});

it('hands what the refusal throws to the error handling of the application', async () => {
  const limiter = createMemoryLimiter({ policy: POLICY });
  const app = express();
  const refuse = (): never => {
    throw new Error('try later');
  };
  app.use(expressLimit({ limiter, key: () => 'everybody', refuse }));
  app.get('/', (_request, response) => void response.send('served'));
  const tell: express.ErrorRequestHandler = (error: Error, _request, response, next) => {
    if (response.headersSent) next(error);
    else response.send(error.message);
  };
  app.use(tell);
  const url = await listen(createServer(app));
  await fetch(url);
  const { status, text } = await fetch(url).then(async (answer) => ({
    status: answer.status,
    text: await answer.text(),
  }));
  expect({ status, text }).toEqual({ status: 429, text: 'try later' });
});

it.each([undefined, null, '', 'route', 'router'])(
  'lets nobody through where the key rejects with %o',
  async (reason) => {
    const app = express();
    app.set('env', 'test');
    app.use(expressLimit({ limiter: createMemoryLimiter({ policy: POLICY }), key: () => Promise.reject(reason) })); // eslint-disable-line @typescript-eslint/prefer-promise-reject-errors -- that is the point
    app.get('/', (_request, response) => void response.send('served'));
    expect((await fetch(await listen(createServer(app)))).status).toBe(500);
  },
);

it('runs as the example shows', () => runExample('express'));

async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
