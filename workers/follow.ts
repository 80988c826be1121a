import { setTimeout as sleep } from 'node:timers/promises';
import { loadConfig, type Config } from '../src/config/config.ts';
import type { Logger } from '../src/observe/log.ts';
import type { SeenStamps } from '../src/redis/stamp.ts';
import { tellWorkerIds } from './parent.ts';
import { startReplica, type Replica, type StartOptions } from './replica.ts';

/** After a failed start, the next one begins this much later. */
const AGAIN_MS = 5_000;

/** As `startReplica`. When other queues are to be consumed, it stops all parts in this process and creates them again. */
export async function startFollowing(config: Config, log: Logger, options: StartOptions): Promise<Replica> {
  /** Set also while the parts are still being created, because the record may change at any time. */
  let isChangeWanted = false;
  let changing: Promise<void> | undefined;
  let [isStarted, isStopped] = [false, false];
  const seen: SeenStamps = new Map();

  const start = (of: Config): Promise<Replica> => {
    isChangeWanted = false; // the new start reads the record again
    const onQueuesChanged = (): void => {
      isChangeWanted = true;
      follow();
    };
    return startReplica(of, log, { ...options, onQueuesChanged, seen });
  };
  let current = await start(config);
  isStarted = true;
  follow();

  function follow(): void {
    if (isStarted && !isStopped && isChangeWanted) changing ??= change();
  }

  async function change(): Promise<void> {
    while (isChangeWanted && !isStopped) {
      log.info('the queues have changed: jobs under way are finished within SHUTDOWN_GRACE, then the others are taken');
      const { url } = current;
      await current.stop();
      tellWorkerIds([], options.env); // it answers nobody until it is ready again
      await startAgain(url);
    }
    changing = undefined;
  }

  async function startAgain(url: string | undefined): Promise<void> {
    while (!isStopped) {
      try {
        current = await start(await configNow(url));
        tellWorkerIds(current.workerIds, options.env);
        log.info(
          { shards: current.shards, metrics: current.url, workerIds: current.workerIds },
          'ready: it takes jobs of the queues that there are now',
        );
        return;
      } catch (error) {
        if (options.signal.aborted) return;
        log.error({ err: error }, 'the worker could not take jobs of the changed queues; tried again in 5 s');
        await sleep(AGAIN_MS, undefined, { signal: options.signal }).catch(() => undefined);
      }
    }
  }

  /** The configuration now: credentials may have changed since the start. The pages keep their address. */
  async function configNow(url: string | undefined): Promise<Config> {
    const read = await Promise.resolve()
      .then(() => loadConfig(options.env))
      .catch(() => config);
    if (url === undefined || read.metrics === undefined) return read;
    return { ...read, metrics: { ...read.metrics, port: Number(new URL(url).port) } };
  }

  return {
    get url() {
      return current.url;
    },
    get workerIds() {
      return current.workerIds;
    },
    get shards() {
      return current.shards;
    },
    reload: (why) => current.reload(why),
    stop: async () => {
      isStopped = true;
      await changing;
      await current.stop();
    },
  };
}
