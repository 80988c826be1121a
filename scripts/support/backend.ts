import { openBackend, type Backend } from '../../api/backend.ts';
import { loadLimiterConfig } from '../../src/config/config.ts';
import { NewerFormatError } from '../../src/domain/format.ts';
import { explained, isLasting, PRODUCER_TIMEOUT_MS, RedisAwayError, whenReady } from '../../src/redis/connection.ts';
import { LimiterUnavailableError } from '../../src/redis/deadline.ts';
import { CommandError } from '../../src/terminal/command.ts';
import { readEnvironment } from './queue.ts';

/** A command says what it cannot do itself. */
const SILENT = { info: () => undefined, warn: () => undefined, error: () => undefined };

/**
 * Opens what operators work with, as the environment names it, runs `work`, and closes it. `advice` is added to the error if Redis is
 * lost for a while.
 */
export async function atBackend<T>(work: (backend: Backend) => Promise<T>, advice = ''): Promise<T> {
  const backend = openBackend(loadLimiterConfig(readEnvironment()), 'command', SILENT);
  try {
    await whenReady(backend.connection, PRODUCER_TIMEOUT_MS);
    return await work(backend);
  } catch (error) {
    const isLimiter = error instanceof LimiterUnavailableError;
    const known = isLimiter ? explained(backend.limiterConnection, error) : backend.explain(error);
    if (known instanceof RedisAwayError) {
      throw new CommandError(`${known.message}${isLasting(known.trouble) ? '' : advice}`);
    }
    if (isLimiter || known instanceof NewerFormatError) throw new CommandError((known as Error).message);
    throw known;
  } finally {
    await backend.close();
  }
}
