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

/** The environment from which a command reads its configuration. Warns of variables that look mistyped. */
export function readEnvironment(): Environment {
  for (const unknown of unknownVariables(process.env)) warn(printable(unknownText(unknown)));
  return process.env;
}

/** Connects to the queue's Redis, runs `work`, and disconnects. If Redis is lost for a while, `advice` is added to the error. */
export async function atQueueRedis<T>(
  redis: RedisConfig,
  work: (connection: Connection) => Promise<T>,
  advice = '',
): Promise<T> {
  const connection = connectProducer(redis);
  connection.on('error', () => undefined); // the call that fails reports the error
  try {
    await whenReady(connection, PRODUCER_TIMEOUT_MS);
    return await work(connection);
  } catch (error) {
    throw lostError(explained(connection, error), advice);
  } finally {
    connection.disconnect();
  }
}

/** The error of a command that has lost Redis, with the advice if Redis may come back; any other error stays as it is. */
export function lostError(error: unknown, advice: string): unknown {
  if (!(error instanceof RedisAwayError)) return error;
  return new CommandError(`${error.message}${isLasting(error.trouble) ? '' : advice}`);
}

/** The error for an argument ID that no notification can have; any other error stays as it is. */
export function unfitId(error: unknown): unknown {
  if (!(error instanceof InputError)) return error;
  const [fault] = error.faults;
  return new UsageError(`ID: expected ${fault?.expected ?? 'an id'}, found ${fault?.found ?? 'another text'}`);
}

/** The reservations of a recipient, the next one first. */
export type Waiting = Pick<Inspection, 'now' | 'reserved'>;

/** `3 notifications wait, the last until 2026-11-21T14:00:09Z (in 2h)`; undefined if none waits. */
export function waitingText({ now, reserved }: Waiting): string | undefined {
  const last = reserved.at(-1);
  if (last === undefined) return undefined;
  const until = instantFrom(now, last.at);
  return reserved.length === 1
    ? `1 notification waits, until ${until}`
    : `${reserved.length} notifications wait, the last until ${until}`;
}

/** The name of the user, for the audit: `root (terminal)`, a name that no token can have. */
export function whoAmI(): string {
  try {
    return `${userInfo().username} (terminal)`;
  } catch {
    return `user ${process.getuid?.() ?? ''} (terminal)`; // a container's user may have no name
  }
}
