// A NestJS application that sends a push notification for each message that it takes.
// Needs a Redis (REDIS_URL), a worker, and in your project: npm install pushpacer
import {
  Body,
  Catch,
  Controller,
  HttpCode,
  Module,
  Post,
  type ArgumentsHost,
  type ExceptionFilter,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { Response } from 'express';
import { InputError, RedisAwayError } from 'pushpacer';
import { PushModule, PushService, type Message } from './push.module.js';

@Controller()
export class MessagesController {
  constructor(private readonly push: PushService) {}

  @Post('messages')
  @HttpCode(202)
  create(@Body() message: Message): Promise<{ added: boolean }> {
    // Your app stores the message here. A client that sends it again gets the same answer, and there is one alert.
    return this.push.send(message);
  }
}

/** 400: the notification does not fit, and the same one never will. 503: Redis is away, and the same one may fit later. */
@Catch(InputError, RedisAwayError)
export class PushErrorFilter implements ExceptionFilter {
  catch(error: InputError | RedisAwayError, host: ArgumentsHost): void {
    const response = host.switchToHttp().getResponse<Response>();
    if (error instanceof InputError) {
      response.status(400).json({ faults: error.faults });
      return;
    }
    console.error(error.message);
    response.status(503).set('Retry-After', '5').json({ error: 'try again later' });
  }
}

@Module({ imports: [PushModule], controllers: [MessagesController] })
export class AppModule {}

if (import.meta.main) {
  const app = await NestFactory.create(AppModule);
  app.useGlobalFilters(new PushErrorFilter());
  app.enableShutdownHooks(['SIGTERM'], { useProcessExit: true }); // or PushService would never be told to close
  await app.listen(Number(process.env['PORT'] ?? '3000'), '127.0.0.1');
  console.log(`listening on ${await app.getUrl()}`);
}
