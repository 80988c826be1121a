// A Fastify application that sends a push notification for each message that it takes.
// Needs a Redis (REDIS_URL), a worker, and in your project: npm install fastify pushpacer
import fastify, { type FastifyInstance } from 'fastify';
import { createProducer, InputError, RedisAwayError, type Device, type Producer } from 'pushpacer';

/** What a client sends: the app's own id of the message, whom it is for, and its text. */
interface Message {
  readonly id: string;
  readonly to: string;
  readonly text: string;
}

/** Your table of devices goes here. */
const DEVICES = new Map<string, Device[]>([['teacher-42', [{ platform: 'fcm', token: 'a-registration-token' }]]]);

export function createApp(producer: Producer): FastifyInstance {
  const app = fastify();
  app.addHook('onClose', () => producer.close()); // after the last request was answered

  app.post<{ Body: Message }>('/messages', async (request, reply) => {
    const { id, to, text } = request.body;
    // Your app stores the message here. A client that sends it again gets the same answer, and there is one alert.
    const { added } = await producer.enqueue({
      id: `msg-${id}`,
      recipientId: to,
      devices: DEVICES.get(to) ?? [],
      alert: { title: 'New message', body: text },
    });
    return reply.code(202).send({ added });
  });

  // 400: the notification does not fit, and the same one never will. 503: Redis is away, and the same one may fit later.
  app.setErrorHandler((error, _request, reply) => {
    if (error instanceof InputError) return reply.code(400).send({ faults: error.faults });
    if (!(error instanceof RedisAwayError)) return reply.send(error);
    console.error(error.message);
    return reply.code(503).header('Retry-After', '5').send({ error: 'try again later' });
  });
  return app;
}

if (import.meta.main) {
  const { REDIS_URL = 'redis://127.0.0.1:6379', PORT = '3000' } = process.env;
  const app = createApp(createProducer({ redisUrl: REDIS_URL })); // one producer for the whole process
  console.log(`listening on ${await app.listen({ port: Number(PORT), host: '127.0.0.1' })}`);
  process.once('SIGTERM', () => void app.close());
}
