// What a NestJS application imports to send push notifications: PushModule, and PushService where it is needed.
// In your project: npm install pushpacer
import { Inject, Injectable, Module, type OnApplicationShutdown } from '@nestjs/common';
import { createProducer, type Device, type Producer } from 'pushpacer';

/** A message of your app. */
export interface Message {
  readonly id: string;
  readonly to: string;
  readonly text: string;
}

/** The token under which Nest injects pushpacer's producer. */
export const PRODUCER = Symbol('pushpacer producer');

/** Your table of devices goes here. */
const DEVICES = new Map<string, Device[]>([['teacher-42', [{ platform: 'fcm', token: 'a-registration-token' }]]]);

@Injectable()
export class PushService implements OnApplicationShutdown {
  constructor(@Inject(PRODUCER) private readonly producer: Producer) {}

  /** Rejects with InputError or RedisAwayError. The same message twice is one alert: `added` is false then. */
  async send({ id, to, text }: Message): Promise<{ added: boolean }> {
    const { added } = await this.producer.enqueue({
      id: `msg-${id}`,
      recipientId: to,
      devices: DEVICES.get(to) ?? [],
      alert: { title: 'New message', body: text },
    });
    return { added };
  }

  /** Nest calls it after the last request was answered. */
  async onApplicationShutdown(): Promise<void> {
    await this.producer.close();
  }
}

@Module({
  providers: [
    PushService,
    {
      provide: PRODUCER,
      useFactory: () => createProducer({ redisUrl: process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379' }),
    },
  ],
  exports: [PushService],
})
export class PushModule {}
