import { policyText, type Policy } from '../../src/domain/limits.ts';
import { shellQuoted } from '../../src/terminal/text.ts';

/** What `pushpacer dev` has started: URLs, and what the page says of them. */
export interface Running {
  readonly console: string;
  readonly api: string;
  readonly redis: string;
  /** This command started the Redis, and ends it too. */
  readonly isOwnRedis: boolean;
  /** The port of the default REDIS_URL. */
  readonly defaultRedisPort: number;
  /** The worker's pages. */
  readonly metrics: string;
  /** The sandbox's control endpoint. */
  readonly sandbox: string;
  readonly apns: string;
  readonly fcm: string;
  readonly webpush: string;
  /** For the HTTP API, with all scopes. */
  readonly token: string;
  readonly policy: Policy;
  /** curl has to be told not to ask a proxy. */
  readonly hasProxy: boolean;
}

/** Who gets the burst. */
const RECIPIENT = 'teacher-7';
const BURST = 20;
const OTHER_LIMITS = { rules: '30/1m', minGap: '1s' };

/** For `--json`. */
export function addressesOf(running: Running): object {
  const { console, api, redis, metrics, sandbox, apns, fcm, webpush, token } = running;
  return { console, api, redis, metrics, sandbox, apns, fcm, webpush, token, ...requestsOf(running) };
}

/** Two requests for a shell (a burst to one recipient, other limits for this recipient), and the page that shows both. */
function requestsOf({ api, console, token, hasProxy }: Running) {
  const curl = (path: string, body: object): string =>
    [
      `curl -sS ${hasProxy ? `--noproxy '*' ` : ''}${shellQuoted(`${api}/v1/${path}`)}`,
      `-H ${shellQuoted(`authorization: Bearer ${token}`)} -H 'content-type: application/json'`,
      `-d ${shellQuoted(JSON.stringify(body))}`,
    ].join(' ');
  const notification = {
    recipientId: RECIPIENT,
    devices: [{ platform: 'fcm', token: 'some-token' }],
    alert: { title: 'Room 12', body: 'Field trip forms are due' },
  };
  return {
    // curl sends one request for each number in the brackets; what is behind # is not sent.
    burst: curl(`notifications#[1-${BURST}]`, notification),
    limit: curl(`recipients/${RECIPIENT}/limit`, OTHER_LIMITS),
    timeline: `${console}/recipients/${RECIPIENT}`,
  };
}

/** The page that is printed at the start. */
export function pageText(running: Running): string {
  const { console, api, redis, metrics, sandbox, apns, fcm, webpush, policy } = running;
  const { burst, limit, timeline } = requestsOf(running);
  const rows = [
    ['console', console, 'looks, and acts'],
    ['HTTP API', api, 'what it takes: /openapi.json'],
    ['Redis', redis, redisText(running)],
    ['worker', metrics, `its pages: /metrics, /readyz; limits of each person: ${policyText(policy)}`],
    ['sandbox', sandbox, 'what the phones got: /journal; what is answered: /answers'],
    ['APNs', apns, 'Apple, on this machine'],
    ['FCM', fcm, 'Google, on this machine'],
    ['web push', webpush, 'browsers, on this machine'],
  ] as const;
  const width = Math.max(...rows.map(([, url]) => url.length));
  return `
pushpacer dev runs, on this machine alone. Ctrl-C ends all of it, and nothing is kept.

${rows.map(([name, url, text]) => `  ${name.padEnd(8)}  ${url.padEnd(width)}  ${text}`).join('\n')}

1. Send a burst, ${BURST} alerts to one person at once:

${burst}

   They go one by one, as the drawing shows: ${timeline}

2. Give this person other limits. What waits moves to its new instants at once, and the drawing follows:

${limit}
`;
}

function redisText({ redis, isOwnRedis, defaultRedisPort }: Running): string {
  if (!isOwnRedis) return 'your own; the worker takes what waits in it';
  if (new URL(redis).port === String(defaultRedisPort)) return 'empty at the start; it is the default REDIS_URL';
  return `empty at the start; for your app and other terminals: export REDIS_URL=${redis}`;
}
