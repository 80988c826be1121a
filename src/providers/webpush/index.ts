import { z } from 'zod';
import { readCertificate, readKey, type Report } from '../../environment/files.ts';
import { anyText, httpsOrigins, LARGEST_QUOTA, serverRules, text, type Environment } from '../../environment/values.ts';
import type { ProviderDescriptor } from '../provider.ts';
import { WEBPUSH_ANSWERS } from './answers.ts';
import { createAllowed } from './origins.ts';
import { webpushDevice } from '../../notification/devices/webpush/payload.ts';
import { type WebpushOptions, readVapidKey, createWebpushProvider } from './webpush.ts';

const variables = z.object({
  WEBPUSH_VAPID_PRIVATE_KEY_FILE: anyText()
    .optional()
    .describe('path of the VAPID private key: 43 characters of base64url, or PEM (docs/webpush.md)'),
  WEBPUSH_VAPID_PRIVATE_KEY: anyText().optional().describe('that key itself, instead of a file'),
  WEBPUSH_VAPID_PUBLIC_KEY: text(/^B[A-P][A-Za-z0-9_-]{85}=?$/, 'a public key: 87 characters of base64url')
    .optional()
    .describe('the public key that browsers subscribe with; it is only compared with the private one'),
  WEBPUSH_SUBJECT: text(
    /^(mailto:[^\s@]+@|https:\/\/)[^\s@/:]+\.[^\s@/:]+(?:[:/]\S*)?$/,
    'mailto:you@example.com or https://example.com, with a full host name',
  )
    .optional()
    .describe('whom a push service may ask about the pushes: `mailto:you@example.com` or an `https://` URL'),
  WEBPUSH_ORIGINS: httpsOrigins()
    .optional()
    .describe('push services to allow beside those of Google, Mozilla, Apple and Microsoft: origins, comma-separated'),
  WEBPUSH_CA_FILE: anyText().optional().describe("a CA to trust beside the system's"),
});

const QUOTA = 'WEBPUSH_QUOTA';

export const WEBPUSH: ProviderDescriptor<'webpush', WebpushOptions> = {
  platform: 'webpush',
  name: 'web push',
  device: webpushDevice,
  settings: {
    variables,
    secrets: ['WEBPUSH_VAPID_PRIVATE_KEY', 'WEBPUSH_ORIGINS'], // an origin may be written with a password
    quota: {
      variable: QUOTA,
      meaning:
        'the same for web push, all push services together; `fcm.googleapis.com=1000/1m` is for one alone, which then does not ' +
        'count in the others (docs/webpush.md)',
      hasServers: true,
    },
    read,
  },
  create: createWebpushProvider,
  answers: WEBPUSH_ANSWERS,
  usualServers: ({ origins }) => (origins.length > 0 ? origins : BROWSERS),
};

/** The push services of most browsers. */
const BROWSERS = [
  'https://fcm.googleapis.com',
  'https://updates.push.services.mozilla.com',
  'https://web.push.apple.com',
];

/** Web push is off if neither a key nor a subject is set. If only some variables are set, each missing one is a fault. */
function read(env: Environment, report: Report): WebpushOptions | undefined {
  const given = variables.parse(env);
  const { WEBPUSH_VAPID_PRIVATE_KEY, WEBPUSH_VAPID_PRIVATE_KEY_FILE, WEBPUSH_VAPID_PUBLIC_KEY } = given;
  const { WEBPUSH_SUBJECT, WEBPUSH_ORIGINS, WEBPUSH_CA_FILE } = given;
  const own = [WEBPUSH_VAPID_PRIVATE_KEY, WEBPUSH_VAPID_PRIVATE_KEY_FILE, WEBPUSH_VAPID_PUBLIC_KEY, WEBPUSH_SUBJECT];
  if (own.every((value) => value === undefined)) return undefined;

  const options = { what: 'the VAPID private key', service: 'web push', report };
  const found = readKey('WEBPUSH_VAPID_PRIVATE_KEY', env, options);
  const pair = found && readVapidKey(found.key);
  if (found !== undefined && pair === undefined) {
    report(found.source, 'a private key on P-256: 43 characters of base64url, or PEM', 'something else');
  }
  const publicKey = WEBPUSH_VAPID_PUBLIC_KEY?.replace(/=$/, '');
  if (pair !== undefined && publicKey !== undefined && publicKey !== pair.publicKey) {
    report('WEBPUSH_VAPID_PUBLIC_KEY', 'the public key of the private key', 'that of another one');
  }
  if (WEBPUSH_SUBJECT === undefined) {
    report('WEBPUSH_SUBJECT', 'a mailto: or https: URL, since web push is configured', 'nothing');
  }
  for (const host of unknownServers(env[QUOTA], WEBPUSH_ORIGINS ?? [])) {
    report(QUOTA, 'hosts of push services that are known or in WEBPUSH_ORIGINS', JSON.stringify(host));
  }
  const ca = readCertificate('WEBPUSH_CA_FILE', WEBPUSH_CA_FILE, report);
  return {
    vapidKey: found?.key ?? '',
    subject: WEBPUSH_SUBJECT ?? '',
    origins: WEBPUSH_ORIGINS ?? [],
    ...(ca !== undefined && { ca }),
  };
}

/** The hosts in the quota that no subscription may have, such as misspelt ones: their rules would limit nothing. */
function unknownServers(quota: string | undefined, origins: readonly string[]): string[] {
  const { data: rules = [] } = serverRules(QUOTA, LARGEST_QUOTA).safeParse(quota ?? '');
  const allowed = createAllowed(origins);
  const servers = new Set(rules.flatMap(({ server }) => server ?? []));
  return [...servers].filter((server) => !URL.canParse(`https://${server}`) || !allowed(`https://${server}`));
}
