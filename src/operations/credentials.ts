import type { Account } from '../notification/device.ts';
import { printable } from '../domain/faults.ts';
import { CREDENTIALS } from '../notification/outcome.ts';
import type { Overview } from '../queue/overview.ts';
import { accountsOf, hasAccount, lackedByAll, type SeenWorker } from '../queue/workers.ts';
import { named, workerName } from '../terminal/text.ts';

// The texts with which the commands `status` and `doctor` say which workers lack credentials.

/**
 * Says how many jobs wait for credentials, which of these no living worker has, and which workers lack those of others.
 *
 * @param died the accounts for which notifications became dead letters lately
 */
export function credentialsText(
  workers: readonly SeenWorker[],
  { byRule, credentials }: Pick<Overview['waiting'], 'byRule' | 'credentials'>,
  died: readonly Account[],
): string | undefined {
  const lacked = lackedText(workers, Object.keys(credentials) as Account[]);
  const what =
    lacked === '' ? 'a worker with credentials for them' : `credentials that no living worker has: ${lacked}`;
  const count = byRule[CREDENTIALS] ?? 0;
  const wait = `${count === 1 ? '1 notification waits' : `${count} notifications wait`} for ${what}`;
  const missing = missingCredentials(workers);
  const lack = missing && `${missing}, which put such jobs back for the others`;
  const diedFor = workers.some(({ alive }) => alive) ? lackedText(workers, died) : '';
  const dead = diedFor !== '' && `notifications died, since no living worker has credentials for ${diedFor}`;
  return [count > 0 && wait, dead, lack].filter(Boolean).join('; ') || undefined;
}

/**
 * `credentials are missing at 1 of 2 workers: fcm (web-1 (process 7))`; undefined if each living worker has credentials for
 * what the others have, and for these accounts.
 */
export function missingCredentials(
  workers: readonly SeenWorker[],
  accounts: readonly Account[] = [],
): string | undefined {
  const alive = workers.filter((worker) => worker.alive);
  const all = [...new Set([...alive.flatMap(accountsOf), ...accounts])].toSorted();
  const lacking = all.flatMap((account) => {
    const without = alive.filter((worker) => !hasAccount(worker, account));
    if (without.length === 0) return [];
    return [`${without.length} of ${alive.length} workers: ${printable(account)} (${named(without.map(workerName))})`];
  });
  return lacking.length === 0 ? undefined : `credentials are missing at ${named(lacking)}`;
}

/** `fcm; webpush~teacher`: those of the accounts that no living worker has credentials for; empty if there is none. */
export function lackedText(workers: readonly SeenWorker[], accounts: readonly Account[]): string {
  return named(lackedByAll(workers, accounts).map((account) => printable(account)));
}
