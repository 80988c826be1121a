// An Express application that answers each client 3 times in any 10 seconds.
// Needs a Redis (REDIS_URL) and, in your project: npm install express ioredis pushpacer
import express, { type Request } from 'express';
import { Redis } from 'ioredis';
import { createRedisLimiter, expressLimit } from 'pushpacer';

const { REDIS_URL = 'redis://127.0.0.1:6379', PORT = '3000' } = process.env;
const redis = new Redis(REDIS_URL);
redis.on('error', (error) => console.error(error.message));

const limiter = createRedisLimiter({
  redis,
  policy: { rules: [{ max: 3, perMs: 10_000 }], minGapMs: 0 },
  prefix: 'example-express',
  timeoutMs: 500,
});

/** The keys that this server gave out, and to whom. Your users table, your session or a verified token goes here. */
const CLIENTS = new Map([['a-long-random-key', 'school-app']]);

/** The client that the request's key proves, otherwise the address. An unknown key proves nothing. */
function whoAsks(request: Request): string {
  const client = CLIENTS.get(request.get('x-api-key') ?? '');
  return client === undefined ? `address:${request.ip ?? 'unknown'}` : `client:${client}`;
}

const app = express();
app.use(expressLimit({ limiter, key: whoAsks }));
app.get('/', (_request, response) => {
  response.json({ hello: 'world' });
});

const server = app.listen(Number(PORT), '127.0.0.1', () => {
  const address = server.address();
  console.log(`listening on http://127.0.0.1:${typeof address === 'object' ? address?.port : PORT}`);
});
process.once('SIGTERM', () => {
  server.close();
  server.closeAllConnections();
  redis.disconnect();
});
