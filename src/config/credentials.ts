import { createPrivateKey } from 'node:crypto';
import { z } from 'zod';
import type { Fault } from '../domain/faults.ts';
import { readFile, reporter, type Report } from './files.ts';
import type { Variables } from './variables.ts';

/** What it takes to speak to APNs. */
export interface ApnsConfig {
  /** The .p8 key, PEM. */
  readonly key: string;
  readonly keyId: string;
  readonly teamId: string;
  readonly topic: string;
  readonly endpoint: string;
  /** PEM of a CA to trust beside the system's. */
  readonly ca?: string;
}

const serviceAccountSchema = z.object({
  project_id: z.string().min(1),
  client_email: z.string().min(1),
  private_key: z.string().min(1),
});
/** A Google service account, as its JSON file has it. */
export type ServiceAccount = z.output<typeof serviceAccountSchema>;

/** What it takes to speak to FCM. */
export interface FcmConfig {
  readonly projectId: string;
  /** Absent where another endpoint is used: no Google sign-in then. */
  readonly serviceAccount?: ServiceAccount;
  readonly endpoint: string;
  readonly ca?: string;
}

const GOOGLE_FCM = 'https://fcm.googleapis.com';

/** APNs' part of the environment; undefined where it is off. Half of it is a fault. */
export function readApns(variables: Variables, faults: Fault[]): ApnsConfig | undefined {
  const { APNS_KEY, APNS_KEY_FILE, APNS_KEY_ID, APNS_TEAM_ID, APNS_TOPIC, APNS_CA_FILE, APNS_ENDPOINT } = variables;
  const given = { APNS_KEY, APNS_KEY_FILE, APNS_KEY_ID, APNS_TEAM_ID, APNS_TOPIC };
  if (Object.values(given).every((value) => value === undefined)) return undefined;

  const report = reporter(faults);
  if (APNS_KEY !== undefined && APNS_KEY_FILE !== undefined) {
    report('APNS_KEY', 'either APNS_KEY or APNS_KEY_FILE', 'both');
  }
  const pem = APNS_KEY ?? readFile('APNS_KEY_FILE', APNS_KEY_FILE, report);
  if (pem === undefined && APNS_KEY_FILE === undefined) {
    report('APNS_KEY_FILE', 'the .p8 key (or APNS_KEY), since APNs is configured', 'nothing');
  }
  const source = APNS_KEY === undefined ? 'APNS_KEY_FILE' : 'APNS_KEY';
  if (pem !== undefined && !isP256Key(pem)) report(source, 'a PEM private key on the P-256 curve', 'something else');
  for (const [name, value] of Object.entries({ APNS_KEY_ID, APNS_TEAM_ID, APNS_TOPIC })) {
    if (value === undefined) report(name, 'a value, since APNs is configured', 'nothing');
  }
  const ca = readFile('APNS_CA_FILE', APNS_CA_FILE, report);
  return {
    key: pem ?? '',
    keyId: APNS_KEY_ID ?? '',
    teamId: APNS_TEAM_ID ?? '',
    topic: APNS_TOPIC ?? '',
    endpoint: APNS_ENDPOINT,
    ...(ca !== undefined && { ca }),
  };
}

/** FCM's part of the environment; undefined where it is off. */
export function readFcm(variables: Variables, faults: Fault[]): FcmConfig | undefined {
  const { GOOGLE_APPLICATION_CREDENTIALS, FCM_PROJECT_ID, FCM_ENDPOINT, FCM_CA_FILE } = variables;
  const needsSignIn = FCM_ENDPOINT === GOOGLE_FCM;
  if (GOOGLE_APPLICATION_CREDENTIALS === undefined && FCM_PROJECT_ID === undefined) return undefined;

  const report = reporter(faults);
  const serviceAccount = readServiceAccount(GOOGLE_APPLICATION_CREDENTIALS, report);
  if (needsSignIn && GOOGLE_APPLICATION_CREDENTIALS === undefined) {
    report('GOOGLE_APPLICATION_CREDENTIALS', "the service account's JSON, since FCM is configured", 'nothing');
  }
  const ca = readFile('FCM_CA_FILE', FCM_CA_FILE, report);
  return {
    projectId: FCM_PROJECT_ID ?? serviceAccount?.project_id ?? '',
    endpoint: FCM_ENDPOINT,
    ...(needsSignIn && serviceAccount !== undefined && { serviceAccount }),
    ...(ca !== undefined && { ca }),
  };
}

function readServiceAccount(path: string | undefined, report: Report): ServiceAccount | undefined {
  const text = readFile('GOOGLE_APPLICATION_CREDENTIALS', path, report);
  if (text === undefined) return undefined;
  const account = serviceAccountSchema.safeParse(parseJson(text));
  if (account.success) return account.data;
  const expected = 'a service account as JSON with project_id, client_email and private_key';
  report('GOOGLE_APPLICATION_CREDENTIALS', expected, 'something else');
  return undefined;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isP256Key(pem: string): boolean {
  try {
    return createPrivateKey(pem).asymmetricKeyDetails?.namedCurve === 'prime256v1';
  } catch {
    return false;
  }
}
