import { z } from 'zod';
import { readCertificate, readFile, type Report } from '../../environment/files.ts';
import { anyText, httpsOrigins, text, type Environment } from '../../environment/values.ts';
import type { ProviderSettings, ProviderDescriptor } from '../descriptor.ts';
import { WEBPUSH_ACCEPTED, WEBPUSH_REPLIES, WEBPUSH_STATUS_REPLIES, WEBPUSH_UNKNOWN } from './answers.ts';
import { webpushDevice } from './payload.ts';
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

const webpushSettings: ProviderSettings<WebpushOptions> = {
  variables,
  // An origin may hold a password, if somebody writes one there.
  secrets: ['WEBPUSH_VAPID_PRIVATE_KEY', 'WEBPUSH_ORIGINS'],
  quota: { variable: 'WEBPUSH_QUOTA', meaning: 'the same for web push, all push services together' },
  read,
};

/** Web push is off if neither a key nor a subject is set. If only some are set, the missing ones are faults. */
function read(env: Environment, report: Report): WebpushOptions | undefined {
  const given = variables.parse(env);
  const { WEBPUSH_VAPID_PRIVATE_KEY, WEBPUSH_VAPID_PRIVATE_KEY_FILE, WEBPUSH_VAPID_PUBLIC_KEY } = given;
  const { WEBPUSH_SUBJECT, WEBPUSH_ORIGINS, WEBPUSH_CA_FILE } = given;
  const own = [WEBPUSH_VAPID_PRIVATE_KEY, WEBPUSH_VAPID_PRIVATE_KEY_FILE, WEBPUSH_VAPID_PUBLIC_KEY, WEBPUSH_SUBJECT];
  if (own.every((value) => value === undefined)) return undefined;

  const key = readKey(WEBPUSH_VAPID_PRIVATE_KEY, WEBPUSH_VAPID_PRIVATE_KEY_FILE, WEBPUSH_VAPID_PUBLIC_KEY, report);
  if (WEBPUSH_SUBJECT === undefined) {
    report('WEBPUSH_SUBJECT', 'a mailto: or https: URL, since web push is configured', 'nothing');
  }
  const ca = readCertificate('WEBPUSH_CA_FILE', WEBPUSH_CA_FILE, report);
  return {
    vapidKey: key ?? '',
    subject: WEBPUSH_SUBJECT ?? '',
    origins: WEBPUSH_ORIGINS ?? [],
    ...(ca !== undefined && { ca }),
  };
}

/** The private key as it was written, from its variable or its file. */
function readKey(
  key: string | undefined,
  file: string | undefined,
  publicKey: string | undefined,
  report: Report,
): string | undefined {
  const [variable, fileVariable] = ['WEBPUSH_VAPID_PRIVATE_KEY', 'WEBPUSH_VAPID_PRIVATE_KEY_FILE'];
  if (key !== undefined && file !== undefined) report(variable, `either ${variable} or ${fileVariable}`, 'both');
  const written = key ?? readFile(fileVariable, file, report);
  if (written === undefined) {
    if (file === undefined) {
      report(fileVariable, `the VAPID private key (or ${variable}), since web push is configured`, 'nothing');
    }
    return undefined;
  }
  const read = readVapidKey(written);
  if (read === undefined) {
    const expected = 'a private key on P-256: 43 characters of base64url, or PEM';
    report(key === undefined ? fileVariable : variable, expected, 'something else');
  } else if (publicKey !== undefined && publicKey.replace(/=$/, '') !== read.publicKey) {
    report('WEBPUSH_VAPID_PUBLIC_KEY', 'the public key of the private key', 'that of another one');
  }
  return written;
}

export const WEBPUSH: ProviderDescriptor<'webpush', WebpushOptions> = {
  platform: 'webpush',
  name: 'web push',
  device: webpushDevice,
  settings: webpushSettings,
  create: createWebpushProvider,
  answers: {
    accepted: WEBPUSH_ACCEPTED,
    words: WEBPUSH_REPLIES,
    statuses: WEBPUSH_STATUS_REPLIES,
    unknown: WEBPUSH_UNKNOWN,
    signIn: {}, // the token is made locally, so there is no sign-in that could be refused
  },
};
