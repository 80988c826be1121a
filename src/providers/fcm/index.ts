import { z } from 'zod';
import { parseJson } from '../../domain/json.ts';
import { isPrivateKey, readCertificate, readFile, type Report } from '../../environment/files.ts';
import { anyText, flag, httpsUrl, text, type Environment } from '../../environment/values.ts';
import type { ProviderDescriptor } from '../provider.ts';
import { FCM_ANSWERS } from './answers.ts';
import { type FcmOptions, createFcmProvider } from './fcm.ts';
import { fcmDevice } from '../../notification/devices/fcm/payload.ts';

const GOOGLE_FCM = 'https://fcm.googleapis.com';

const variables = z.object({
  GOOGLE_APPLICATION_CREDENTIALS: anyText()
    .optional()
    .describe("path of the service account's JSON; without it Google's application default credentials are used"),
  FCM_PROJECT_ID: text(/^[a-z0-9:.-]{1,100}$/, 'a project id such as my-app-1234')
    .optional()
    .describe('the project; from the service account where it is left out'),
  FCM_ENDPOINT: httpsUrl()
    .default(GOOGLE_FCM)
    .describe('another host for tests; with it, a static token is used and no Google sign-in happens'),
  FCM_CA_FILE: anyText().optional().describe("a CA to trust beside the system's"),
  FCM_ANDROID_V2: flag()
    .default(false)
    .describe('`true`: alerts reach sleeping Android devices without delay, by a preview of Google (`android_v2`)'),
});

export const FCM: ProviderDescriptor<'fcm', FcmOptions> = {
  platform: 'fcm',
  name: 'FCM',
  device: fcmDevice,
  settings: {
    variables,
    secrets: ['FCM_ENDPOINT'], // the endpoint may contain a password
    quota: { variable: 'FCM_QUOTA', meaning: 'the same for FCM' },
    appFields: { GOOGLE_APPLICATION_CREDENTIALS: 'credentialsFile' },
    read,
  },
  create: createFcmProvider,
  answers: FCM_ANSWERS,
  dryRun: {
    device: { platform: 'fcm', token: 'dry-run' },
    request: (encoded) => ({ ...encoded, body: dryRunBody(String(encoded.body)) }),
    goodCodes: [],
  },
};

/**
 * A body with `validate_only`: FCM checks the message and sends nothing
 * (firebase.google.com/docs/reference/fcm/rest/v1/projects.messages/send). It goes to a topic, since FCM would refuse a token
 * that no device has; no app subscribes to this topic.
 */
function dryRunBody(body: string): string {
  const { message } = JSON.parse(body) as { readonly message: Readonly<Record<string, unknown>> };
  return JSON.stringify({ validate_only: true, message: { ...message, token: undefined, topic: DRY_RUN_TOPIC } });
}

const DRY_RUN_TOPIC = 'pushpacer-doctor-dry-run';

const serviceAccountSchema = z.object({
  type: z.literal('service_account').optional(),
  project_id: z.string().min(1),
  client_email: z.string().min(1),
  private_key: z.string().min(1),
});
/** The other kinds of credential files that Google's library reads. */
const OTHER_KINDS = [
  ...(['authorized_user', 'external_account', 'external_account_authorized_user'] as const),
  ...(['impersonated_service_account', 'gdch_service_account'] as const),
] as const;
const otherKindSchema = z.object({ type: z.enum(OTHER_KINDS) });

/**
 * FCM is off if neither credentials nor a project are set. The options contain no credentials if another endpoint is used (then
 * no Google sign-in happens), or if Google's application default credentials are used (workload identity, metadata server).
 */
function read(env: Environment, report: Report, source: 'environment' | 'apps-file'): FcmOptions | undefined {
  const {
    GOOGLE_APPLICATION_CREDENTIALS: file,
    FCM_PROJECT_ID,
    FCM_ENDPOINT,
    FCM_CA_FILE,
    FCM_ANDROID_V2,
  } = variables.parse(env);
  if (file === undefined && FCM_PROJECT_ID === undefined) return undefined;

  const account = readServiceAccount(file, FCM_PROJECT_ID !== undefined, source, report);
  const ca = readCertificate('FCM_CA_FILE', FCM_CA_FILE, report);
  return {
    projectId: FCM_PROJECT_ID ?? account?.project_id ?? '',
    endpoint: FCM_ENDPOINT,
    ...(FCM_ENDPOINT === GOOGLE_FCM && account !== undefined && { credentials: account }),
    ...(ca !== undefined && { ca }),
    ...(FCM_ANDROID_V2 && { androidV2: true }),
  };
}

/**
 * A Google service account, from its JSON file. Undefined also for another kind of file (`external_account`): Google's library
 * reads such a file itself, and the file names no project. The library finds the file only by the environment, so an app of
 * APPS_FILE cannot have one.
 */
function readServiceAccount(
  path: string | undefined,
  hasProject: boolean,
  source: 'environment' | 'apps-file',
  report: Report,
): z.output<typeof serviceAccountSchema> | undefined {
  const json = readFile('GOOGLE_APPLICATION_CREDENTIALS', path, report);
  if (json === undefined) return undefined;
  const value = parseJson(json);
  const { data } = serviceAccountSchema.safeParse(value);
  if (data !== undefined && isPrivateKey(data.private_key)) return data;
  if (data !== undefined) {
    const expected = 'a service account whose private_key is a private key as PEM';
    report('GOOGLE_APPLICATION_CREDENTIALS', expected, 'something else');
    return undefined;
  }
  if (source === 'apps-file' || !otherKindSchema.safeParse(value).success) {
    const expected = 'a service account as JSON with project_id, client_email and private_key';
    report('GOOGLE_APPLICATION_CREDENTIALS', expected, 'something else');
  } else if (!hasProject) {
    report('FCM_PROJECT_ID', 'the project, since GOOGLE_APPLICATION_CREDENTIALS is no service account', 'nothing');
  }
  return undefined;
}
