import { openBackend, type Backend } from '../../api/backend.ts';
import { loadLimiterConfig } from '../../src/config/config.ts';
import { NewerFormatError } from '../../src/domain/format.ts';
import { explained, PRODUCER_TIMEOUT_MS, whenReady } from '../../src/redis/connection.ts';
import { LimiterUnavailableError } from '../../src/redis/deadline.ts';
import { CommandError } from '../../src/terminal/command.ts';
import { lostError, readEnvironment } from './queue.ts';

/** A log without output, because a command itself reports what it cannot do. */
const SILENT = { info: () => undefined, warn: () => undefined, error: () => undefined };

/**
 * Opens the backend of the operators, by the environment, runs `work`, and closes it. If Redis is lost for a while, `advice` is
 * added to the error.
 */
export async function atBackend<T>(work: (backend: Backend) => Promise<T>, advice = ''): Promise<T> {
  const backend = openBackend(loadLimiterConfig(readEnvironment()), 'command', SILENT);
  try {
    await whenReady(backend.connection, PRODUCER_TIMEOUT_MS);
    return await work(backend);
  } catch (error) {
    const isLimiter = error instanceof LimiterUnavailableError;
    const known = isLimiter ? explained(backend.limiterConnection, error) : backend.explain(error);
    if (known instanceof NewerFormatError || known instanceof LimiterUnavailableError) {
      throw new CommandError(known.message);
    }
    throw lostError(known, advice);
  } finally {
    await backend.close();
  }
}
