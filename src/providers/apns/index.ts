import { z } from 'zod';
import { readCertificate, readKey, type Report } from '../../environment/files.ts';
import { anyText, httpsUrl, text, type Environment } from '../../environment/values.ts';
import { readP256Key } from '../credential.ts';
import type { ProviderDescriptor } from '../provider.ts';
import { APNS_ANSWERS } from './answers.ts';
import { type ApnsOptions, createApnsProvider } from './apns.ts';
import { apnsDevice } from '../../notification/devices/apns/payload.ts';

const variables = z.object({
  APNS_KEY_FILE: anyText().optional().describe('path of the .p8 key'),
  APNS_KEY: anyText().optional().describe('the .p8 key as PEM, instead of a file'),
  APNS_KEY_ID: text(/^[A-Za-z0-9]{1,32}$/, 'a key id such as ABC123DEFG')
    .optional()
    .describe('the id of that key'),
  APNS_TEAM_ID: text(/^[A-Za-z0-9]{1,32}$/, 'a team id such as DEF123GHIJ')
    .optional()
    .describe("the developer team's id"),
  APNS_TOPIC: text(/^[\x21-\x7e]{1,255}$/, 'a bundle id such as com.example.app')
    .optional()
    .describe("the app's bundle id"),
  APNS_ENDPOINT: httpsUrl()
    .default('https://api.push.apple.com')
    .describe('also `https://api.sandbox.push.apple.com`, or a loopback server'),
  APNS_CHANNELS_ENDPOINT: httpsUrl()
    .optional()
    .describe("where `pushpacer channel` manages channels; by default Apple's address that goes with `APNS_ENDPOINT`"),
  APNS_CA_FILE: anyText().optional().describe("a CA to trust beside the system's"),
});

export const APNS: ProviderDescriptor<'apns', ApnsOptions> = {
  platform: 'apns',
  name: 'APNs',
  device: apnsDevice,
  settings: {
    variables,
    secrets: ['APNS_KEY', 'APNS_ENDPOINT', 'APNS_CHANNELS_ENDPOINT'], // an endpoint may contain a password
    quota: {
      variable: 'APNS_QUOTA',
      meaning: 'the most sends to APNs, by all workers together: rules such as `600000/1m`, of an hour at most',
    },
    read,
  },
  create: createApnsProvider,
  answers: APNS_ANSWERS,
  // APNs has no dry run. But it checks the key and the topic before the device token, and no device has this token.
  dryRun: {
    device: { platform: 'apns', token: '0'.repeat(64) },
    request: (encoded) => encoded,
    goodCodes: ['BadDeviceToken', 'DeviceTokenNotForTopic'],
  },
};

/** APNs is off if none of its variables is set. If only some are set, each missing one is a fault. */
function read(env: Environment, report: Report): ApnsOptions | undefined {
  const given = variables.parse(env);
  const { APNS_KEY, APNS_KEY_FILE, APNS_KEY_ID, APNS_TEAM_ID, APNS_TOPIC, APNS_CA_FILE, APNS_ENDPOINT } = given;
  const { APNS_CHANNELS_ENDPOINT: channelsEndpoint } = given;
  const own = [APNS_KEY, APNS_KEY_FILE, APNS_KEY_ID, APNS_TEAM_ID, APNS_TOPIC];
  if (own.every((value) => value === undefined)) return undefined;

  const found = readKey('APNS_KEY', env, { what: 'the .p8 key', service: 'APNs', report });
  if (found !== undefined && readP256Key(found.key) === undefined) {
    report(found.source, 'a PEM private key on the P-256 curve', 'something else');
  }
  for (const [name, value] of Object.entries({ APNS_KEY_ID, APNS_TEAM_ID, APNS_TOPIC })) {
    if (value === undefined) report(name, 'a value, since APNs is configured', 'nothing');
  }
  const ca = readCertificate('APNS_CA_FILE', APNS_CA_FILE, report);
  return {
    key: found?.key ?? '',
    keyId: APNS_KEY_ID ?? '',
    teamId: APNS_TEAM_ID ?? '',
    topic: APNS_TOPIC ?? '',
    endpoint: APNS_ENDPOINT,
    ...(channelsEndpoint !== undefined && { channelsEndpoint }),
    ...(ca !== undefined && { ca }),
  };
}
