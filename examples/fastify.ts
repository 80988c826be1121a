// A Fastify application that answers each client 3 times in any 10 seconds.
// Needs a Redis (REDIS_URL) and, in your project: npm install fastify ioredis pushpacer
import fastify, { type FastifyRequest } from 'fastify';
import { Redis } from 'ioredis';
import { createRedisLimiter, fastifyLimit } from 'pushpacer';

const { REDIS_URL = 'redis://127.0.0.1:6379', PORT = '3000' } = process.env;
const redis = new Redis(REDIS_URL);
redis.on('error', (error) => console.error(error.message));

const limiter = createRedisLimiter({
  redis,
  policy: { rules: [{ max: 3, perMs: 10_000 }], minGapMs: 0 },
  prefix: 'example-fastify',
  timeoutMs: 500,
});

/** The keys that this server gave out, and to whom. Your users table, your session or a verified token goes here. */
const CLIENTS = new Map([['a-long-random-key', 'school-app']]);

/** The client that the request's key proves, otherwise the address. An unknown key proves nothing. */
function whoAsks(request: FastifyRequest): string {
  const client = CLIENTS.get(request.headers['x-api-key']?.toString() ?? '');
  return client === undefined ? `address:${request.ip}` : `client:${client}`;
}

const app = fastify({ forceCloseConnections: true });
app.addHook('onRequest', fastifyLimit({ limiter, key: whoAsks }));
app.get('/', () => ({ hello: 'world' }));

console.log(`listening on ${await app.listen({ port: Number(PORT), host: '127.0.0.1' })}`);
process.once('SIGTERM', () => {
  redis.disconnect();
  void app.close();
});
