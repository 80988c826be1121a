import { userInfo } from 'node:os';
import type { RedisConfig } from '../../src/config/config.ts';
import { unknownText, unknownVariables } from '../../src/config/variables.ts';
import { InputError, printable } from '../../src/domain/faults.ts';
import type { Environment } from '../../src/environment/values.ts';
import type { Inspection } from '../../src/limiter/limiter.ts';
import {
  connectProducer,
  explained,
  isLasting,
  PRODUCER_TIMEOUT_MS,
  RedisAwayError,
  whenReady,
  type Connection,
} from '../../src/redis/connection.ts';
import { warn, CommandError, UsageError } from '../../src/terminal/command.ts';
import { instantFrom } from '../../src/terminal/text.ts';

/** The environment that a command reads its configuration from. Says which of its variables look mistyped. */
export function readEnvironment(): Environment {
  for (const unknown of unknownVariables(process.env)) warn(printable(unknownText(unknown)));
  return process.env;
}

/** Connects to the queue's Redis, runs `work`, and disconnects. `advice` is added to the error if Redis is lost for a while. */
export async function atQueueRedis<T>(
  redis: RedisConfig,
  work: (connection: Connection) => Promise<T>,
  advice = '',
): Promise<T> {
  const connection = connectProducer(redis);
  connection.on('error', () => undefined); // the call that fails reports it
  try {
    await whenReady(connection, PRODUCER_TIMEOUT_MS);
    return await work(connection);
  } catch (error) {
    const known = explained(connection, error);
    if (!(known instanceof RedisAwayError)) throw known;
    throw new CommandError(`${known.message}${isLasting(known.trouble) ? '' : advice}`);
  } finally {
    connection.disconnect();
  }
}

/** The error for an argument ID that no notification can have; any other error as it is. */
export function unfitId(error: unknown): unknown {
  if (!(error instanceof InputError)) return error;
  const [fault] = error.faults;
  return new UsageError(`ID: expected ${fault?.expected ?? 'an id'}, found ${fault?.found ?? 'another text'}`);
}

/** What waits for a slot, the next one first. */
export type Waiting = Pick<Inspection, 'now' | 'reserved'>;

/** `3 notifications wait, the last until 2026-11-21T14:00:09Z (in 2h)`; undefined where none does. */
export function waitingText({ now, reserved }: Waiting): string | undefined {
  const last = reserved.at(-1);
  if (last === undefined) return undefined;
  const until = instantFrom(now, last.at);
  return reserved.length === 1
    ? `1 notification waits, until ${until}`
    : `${reserved.length} notifications wait, the last until ${until}`;
}

/** Who does it, for the audit: `root (terminal)`, which no token can be called. */
export function whoAmI(): string {
  try {
    return `${userInfo().username} (terminal)`;
  } catch {
    return `user ${process.getuid?.() ?? ''} (terminal)`; // a container's user may have no name
  }
}
