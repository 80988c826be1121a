/**
 * The push services that browsers use, by their hosts. A subscription comes from a browser: without this list, somebody could
 * subscribe with the address of an internal server and have the worker send requests to it.
 *
 * - Google, for Chrome, Opera, Brave, Samsung Internet: fcm.googleapis.com; android.googleapis.com for subscriptions of before 2019
 * - Mozilla, for Firefox: updates.push.services.mozilla.com
 *   (mozilla-services.github.io/autopush-rs)
 * - Apple, for Safari and web apps on the home screen: any host below push.apple.com
 *   (developer.apple.com/documentation/usernotifications/sending-web-push-notifications-in-web-apps-and-browsers)
 * - Microsoft, for Edge: any host below notify.windows.com
 *   (learn.microsoft.com/windows/apps/design/shell/tiles-and-notifications/firewall-allowlist-config)
 *
 * github.com/web-push-libs/web-push/issues/801 has the same list.
 *
 * Which protocol each speaks is decided anew with every connection: RFC 8030 is about HTTP/2, and Apple documents both, but
 * Mozilla and Microsoft document neither. What is certain is HTTP/1.1, which the library `web-push` uses for all four.
 */
const HOSTS: readonly string[] = [
  'fcm.googleapis.com',
  'android.googleapis.com',
  'updates.push.services.mozilla.com',
  '*.push.apple.com',
  '*.notify.windows.com',
];

/**
 * Whether pushes may be sent to an origin: `named` is that of a known push service, on port 443, or one of `more`; `below` is any
 * host below one that is known, so it may be made up. Undefined: no.
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
