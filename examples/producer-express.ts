// An Express application that sends a push notification for each message that it takes.
// Needs a Redis (REDIS_URL), a worker, and in your project: npm install express pushpacer
import express, { type ErrorRequestHandler, type Express } from 'express';
import { createProducer, InputError, RedisAwayError, type Device, type Producer } from 'pushpacer';

/** What a client sends: the app's own id of the message, whom it is for, and its text. */
interface Message {
  readonly id: string;
  readonly to: string;
  readonly text: string;
}

/** Your table of devices goes here. */
const DEVICES = new Map<string, Device[]>([['teacher-42', [{ platform: 'fcm', token: 'a-registration-token' }]]]);

export function createApp(producer: Producer): Express {
  const app = express();
  app.use(express.json());

  app.post('/messages', async (request, response) => {
    const { id, to, text } = request.body as Message;
    // Your app stores the message here. A client that sends it again gets the same answer, and there is one alert.
    const { added } = await producer.enqueue({
      id: `msg-${id}`,
      recipientId: to,
      devices: DEVICES.get(to) ?? [],
      alert: { title: 'New message', body: text },
    });
    response.status(202).json({ added });
  });

  app.use(answerErrors);
  return app;
}

/** 400: the notification does not fit, and the same one never will. 503: Redis is away, and the same one may fit later. */
const answerErrors: ErrorRequestHandler = (error, _request, response, next) => {
  if (error instanceof InputError) {
    response.status(400).json({ faults: error.faults });
  } else if (error instanceof RedisAwayError) {
    console.error(error.message);
    response.status(503).set('Retry-After', '5').json({ error: 'try again later' });
  } else {
    next(error);
  }
};

if (import.meta.main) {
  const { REDIS_URL = 'redis://127.0.0.1:6379', PORT = '3000' } = process.env;
  const producer = createProducer({ redisUrl: REDIS_URL }); // one for the whole process
  const server = createApp(producer).listen(Number(PORT), '127.0.0.1', () => {
    const address = server.address();
    console.log(`listening on http://127.0.0.1:${typeof address === 'object' ? address?.port : PORT}`);
  });
  process.once('SIGTERM', () => {
    server.close(() => void producer.close()); // after the last request was answered
  });
}
