import type { Provider } from '../provider.ts';

interface Open {
  readonly provider: Provider;
  readonly idle: NodeJS.Timeout;
  sending: number;
}

/**
 * Keeps a provider for each push service. It is created when the first push needs it.
 *
 * @param max the most providers that are open at once
 * @param idleMs a provider that sent nothing for so long is closed
 */
export function createOrigins(create: (origin: string) => Provider, max: number, idleMs: number) {
  /** In the order of their last use: the provider that was not used for the longest time comes first. */
  const open = new Map<string, Open>();
  const closing = new Set<Promise<void>>();

  function end(origin: string, { provider, idle }: Open): void {
    clearTimeout(idle);
    open.delete(origin);
    const closed = provider.close().finally(() => closing.delete(closed));
    closing.add(closed);
  }

  function endIfIdle(origin: string): void {
    const found = open.get(origin);
    if (found?.sending === 0) end(origin, found);
    else found?.idle.refresh();
  }

  function make(origin: string): Open | undefined {
    if (open.size >= max) {
      const [oldest] = [...open].filter(([, { sending }]) => sending === 0);
      if (oldest === undefined) return undefined;
      end(...oldest);
    }
    return { provider: create(origin), sending: 0, idle: setTimeout(() => endIfIdle(origin), idleMs).unref() };
  }

  function find(origin: string): Open | undefined {
    const found = open.get(origin) ?? make(origin);
    if (found === undefined) return undefined;
    found.idle.refresh();
    open.delete(origin);
    open.set(origin, found);
    return found;
  }

  return {
    /** The provider of a push service. Undefined if too many are open and all of them are sending. */
    get: (origin: string) => find(origin)?.provider,
    /** As `get`; the provider stays open until `work` has ended. */
    use<T>(origin: string, work: (provider: Provider) => Promise<T>): Promise<T> | undefined {
      const found = find(origin);
      if (found === undefined) return undefined;
      found.sending += 1;
      return work(found.provider).finally(() => (found.sending -= 1));
    },
    all: () => [...open].map(([origin, { provider }]) => [origin, provider] as const),
    abort(): void {
      for (const { provider } of open.values()) provider.abort();
    },
    async close(): Promise<void> {
      for (const [origin, each] of open) end(origin, each);
      await Promise.all(closing);
    },
  };
}

/**
 * The push services that browsers use, by their hosts. A subscription comes from a browser: without this list, an
 * attacker could subscribe with the address of an internal server and have the worker send requests to it.
 *
 * - Google, for Chrome, Opera, Brave, Samsung Internet: fcm.googleapis.com; android.googleapis.com before 2019
 * - Mozilla, for Firefox: updates.push.services.mozilla.com
 *   (mozilla-services.github.io/autopush-rs)
 * - Apple, for Safari and web apps on the home screen: any host below push.apple.com
 *   (developer.apple.com/documentation/usernotifications/sending-web-push-notifications-in-web-apps-and-browsers)
 * - Microsoft, for Edge: any host below notify.windows.com
 *   (learn.microsoft.com/windows/apps/design/shell/tiles-and-notifications/firewall-allowlist-config)
 *
 * github.com/web-push-libs/web-push/issues/801 has the same list.
 *
 * The protocol is negotiated with every connection: RFC 8030 is about HTTP/2, Apple documents both protocols, Mozilla and
 * Microsoft document neither. Only HTTP/1.1 is certain, since the library `web-push` uses it for all four.
 */
const HOSTS: readonly string[] = [
  'fcm.googleapis.com',
  'android.googleapis.com',
  'updates.push.services.mozilla.com',
  '*.push.apple.com',
  '*.notify.windows.com',
];

/**
 * Whether pushes may be sent to an origin. `named`: the origin of a known push service, on port 443, or one of `more`. `below`:
 * any host below a known one, so the host may be made up. Undefined: no.
 */
export function createAllowed(more: readonly string[]): (origin: string) => 'named' | 'below' | undefined {
  const own = new Set(more);
  return (origin) => {
    if (own.has(origin)) return 'named';
    const host = HOSTS.find((candidate) => fits(origin, candidate));
    return host === undefined ? undefined : host.startsWith('*') ? 'below' : 'named';
  };
}

function fits(origin: string, host: string): boolean {
  if (!host.startsWith('*.')) return origin === `https://${host}`;
  const { hostname, port } = new URL(origin);
  return port === '' && hostname.endsWith(host.slice(1)) && hostname.length > host.length - 1;
}
