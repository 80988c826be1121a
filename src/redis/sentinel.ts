import { Redis, type RedisOptions } from 'ioredis';

/**
 * A master that stood still, and was replaced meanwhile, goes on as a master until a Sentinel makes it a replica, some ten seconds later.
 * What is written there in that time is lost, and its queue gives out jobs that the new master gives out too. A connection to it that has
 * survived does not notice any of that. So each process listens to all its Sentinels, and closes its connections to an old master: they
 * then ask a Sentinel for the master and connect anew, as after a reset.
 */

/** Said when the master is another one; the Sentinel that leads a failover says the first as soon as the new master is one. */
const CHANNELS = ['+promoted-slave', '+switch-master'];
/** A Sentinel that gives no answer for this long is connected to anew. */
const SILENCE_MS = 2_000;
/** An idle connection is tried after this time, and closed about 10 s later, so that no firewall ends it unnoticed. */
const KEEP_ALIVE_MS = 5_000;

/** As in target.ts. */
type Options = Omit<RedisOptions, 'replyMapping'>;

/** A connection to a master. */
interface Follower {
  /** Closes the connection if the master that it was told of is none any more; whether it did. */
  leave(isMaster: (address: string) => boolean): boolean;
}

/** What the Sentinels of one group say, asked as long as a connection needs it. */
interface Watch {
  add(follower: Follower): void;
  /** For a follower that has just connected. */
  check(follower: Follower): void;
  remove(follower: Follower): void;
}

/** Opens a connection to the master that the Sentinels name. It leaves that master when they name another one; so do its duplicates. */
export function followMaster(open: (options: Options) => Redis, options: Options): Redis {
  let address = '';
  const natMap = (named: string): null => {
    address = named; // as the Sentinel calls the master: the last that it is asked for
    return null;
  };
  const connection = open({ ...options, natMap });
  const watch = watchOf(options);
  const follower: Follower = {
    leave(isMaster) {
      if (address === '' || isMaster(address)) return false;
      connection.stream.destroy(new Error(`the Sentinels name another master than ${address}`));
      return true;
    },
  };
  connection
    .on('connecting', () => watch.add(follower))
    .on('connect', () => watch.check(follower))
    .on('end', () => watch.remove(follower));
  const disconnect = connection.disconnect.bind(connection);
  connection.disconnect = (isReconnecting) => {
    if (isReconnecting !== true) watch.remove(follower); // `end` does not come if it waits to connect again
    disconnect(isReconnecting);
  };
  // BullMQ makes its connection for blocking commands in this way.
  connection.duplicate = (override) => followMaster((all) => new Redis(all), { ...connection.options, ...override });
  return connection;
}

/** One for each group of Sentinels in this process. Without connections it does nothing. */
const WATCHES = new Map<string, Watch>();

function watchOf(options: Options): Watch {
  const { sentinels, name, sentinelPassword, sentinelTLS } = options;
  const key = JSON.stringify([sentinels, name, sentinelPassword, sentinelTLS !== undefined]);
  const watch = WATCHES.get(key) ?? createWatch(options);
  WATCHES.set(key, watch);
  return watch;
}

/** What a Sentinel says. */
interface Answer {
  readonly address: string;
  /** Grows with each failover, so the answer with the highest one is the newest. */
  readonly epoch: number;
}

function createWatch(options: Options): Watch {
  const { sentinels = [], name = '' } = options;
  const followers = new Set<Follower>();
  const links = new Map<Redis, Answer | undefined>();

  /** Without an answer, every address is believed. */
  function isMaster(address: string): boolean {
    const answers = [...links.values()].filter((answer) => answer !== undefined);
    const newest = Math.max(...answers.map(({ epoch }) => epoch));
    return answers.length === 0 || answers.some((answer) => answer.epoch === newest && answer.address === address);
  }

  async function look(link: Redis): Promise<void> {
    const answer = await ask(link, name).catch(() => undefined);
    if (!links.has(link)) return;
    links.set(link, answer);
    for (const follower of followers) follower.leave(isMaster);
  }

  function open(): void {
    for (const { host = 'localhost', port = 26_379 } of sentinels) {
      const link = new Redis({ host, port, ...linkOptions(options) });
      links.set(link, undefined);
      link.on('error', () => undefined); // it is tried again; what is wrong with the Sentinels, the followers report
      // What was said before it listened is in the answer.
      link.on(
        'ready',
        () =>
          void link.subscribe(...CHANNELS).then(
            () => look(link),
            () => undefined,
          ),
      );
      link.on('message', () => void look(link));
    }
  }

  return {
    add(follower) {
      followers.add(follower);
      if (links.size === 0) open();
    },
    check(follower) {
      // It asked a Sentinel that does not know of the newest failover, or this watch does not.
      if (follower.leave(isMaster)) for (const link of links.keys()) void look(link);
    },
    remove(follower) {
      followers.delete(follower);
      if (followers.size > 0) return;
      for (const link of links.keys()) link.disconnect();
      links.clear();
    },
  };
}

function linkOptions({ sentinelPassword, sentinelTLS }: Options): Options {
  return {
    ...(sentinelPassword !== undefined && { password: sentinelPassword }),
    ...(sentinelTLS && { tls: sentinelTLS }),
    protocol: 3, // a connection that listens may then ask, too
    enableReadyCheck: false,
    enableOfflineQueue: false,
    autoResubscribe: false,
    maxRetriesPerRequest: 0,
    connectTimeout: SILENCE_MS,
    socketTimeout: SILENCE_MS,
    keepAlive: KEEP_ALIVE_MS,
    retryStrategy: (times) => Math.min(times * 200, 2_000),
  };
}

async function ask(link: Redis, name: string): Promise<Answer> {
  const [state, address] = await Promise.all([
    link.call('SENTINEL', 'MASTER', name) as Promise<string[]>,
    link.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name) as Promise<[host: string, port: string]>,
  ]);
  return { address: address.join(':'), epoch: Number(state[state.indexOf('config-epoch') + 1]) };
}
