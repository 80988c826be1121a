import { reloadCredentials } from '../src/config/config.ts';
import { namesOf, type Account } from '../src/domain/device.ts';
import { formatFault } from '../src/domain/faults.ts';
import { watchFiles } from '../src/environment/files.ts';
import type { Environment } from '../src/environment/values.ts';
import type { Logger } from '../src/observe/log.ts';
import type { Accounts } from './accounts.ts';

export interface RotationParts {
  /** The worker's environment, which names the files. */
  readonly env: Environment;
  /** The files that the credentials in force were read from. */
  readonly files: readonly string[];
  readonly accounts: Pick<Accounts, 'apply' | 'names'>;
  /** Called with the accounts that there are from now on. */
  readonly use: (accounts: readonly Account[]) => void;
  readonly log: Logger;
}

export interface Rotation {
  /** Reads all files now. @param why for the log: `SIGHUP` */
  reload(why: string): void;
  stop(): void;
}

/** Reads the credentials anew when one of their files changes, and when it is asked to; logs what changed. */
export function startRotation({ env, files, accounts, use, log }: RotationParts): Rotation {
  const watch = watchFiles(() => reload('a file changed'));
  watch.use(files);
  let isStopped = false;
  let toldFaults = '';

  /** A bug in here must not end all workers at once. */
  function reload(why: string): void {
    try {
      if (!isStopped) readAnew(why);
    } catch (error) {
      log.error({ why, err: error }, FAILED);
    }
  }

  function readAnew(why: string): void {
    const { credentials, isFaulty, faults: readFaults } = reloadCredentials(env);
    const { changes, faults: createFaults } = accounts.apply(credentials, isFaulty);
    use(accounts.names());
    watch.use(credentials.files);
    const faults = [...readFaults, ...createFaults].map(formatFault);
    // The files are read once more soon after they changed: the same faults are told once.
    const isTold = faults.join('\n') === toldFaults && why !== SIGHUP;
    toldFaults = faults.join('\n');
    if (faults.length > 0 && !isTold) log.error({ why, faults }, KEPT);
    if (changes.length > 0) {
      const told = changes.map(({ account, ...change }) => ({ ...namesOf(account), ...change }));
      log.info({ why, changes: told }, CHANGED);
    } else if (faults.length === 0 && why === SIGHUP) {
      log.info({ why }, 'credentials read anew: nothing has changed');
    }
  }

  return {
    reload,
    stop() {
      isStopped = true;
      watch.stop();
    },
  };
}

/** Who sends this signal wants an answer. */
const SIGHUP = 'SIGHUP';
const CHANGED = 'credentials read anew: they hold from now on; notifications under way end with the old ones';
const FAILED = 'unexpected error while new credentials were read: some may not hold before the worker is restarted';
const KEPT =
  'new credentials have faults: what they belong to keeps the credentials that it has; put the files right, they are read ' +
  'again when they change';
