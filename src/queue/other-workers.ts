import type { Account } from '../domain/device.ts';
import type { ScriptRedis } from '../redis/scripts.ts';
import { hasAccount, readWorkers, type SeenWorker } from './workers.ts';

/** What the living workers have credentials for, as a worker sees that lacks some. */
export interface OtherWorkers {
  /** Whether one of them has all of these; also true where Redis does not say it. Never rejects. */
  have(accounts: readonly Account[]): Promise<boolean>;
}

/** Workers write their lines every 5 s. */
const READ_EVERY_MS = 5_000;

/** Reads the registry when it is asked, and not more often than workers write it. */
export function createOtherWorkers(redis: ScriptRedis, prefix: string): OtherWorkers {
  let last = { at: -Infinity, living: Promise.resolve<readonly SeenWorker[] | undefined>(undefined) };
  const living = (): typeof last.living => {
    const at = performance.now();
    if (at - last.at >= READ_EVERY_MS) {
      const read = readWorkers(redis, prefix).then(
        ({ workers }) => workers.filter(({ alive, stopping }) => alive && !stopping),
        () => undefined,
      );
      last = { at, living: read };
    }
    return last.living;
  };
  return {
    async have(accounts) {
      const found = await living();
      return found?.some((worker) => accounts.every((account) => hasAccount(worker, account))) ?? true;
    },
  };
}
