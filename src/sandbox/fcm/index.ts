import { makeRsaKey } from '../keys/pem.ts';
import type { ServerKey, ServerKind } from '../server-kind.ts';
import { FcmServer } from './server.ts';

const PROJECT_ID = 'pushpacer-sandbox';

/** All sandboxes of a process share the key: it takes the longest to make, and no client signs in with it. */
let accountKey: Promise<string> | undefined;

/** A service account in Google's format. */
const key: ServerKey = {
  file: 'service-account.json',
  make: () => (accountKey ??= makeRsaKey()),
  format: {
    write: (privateKey, url) => {
      const account = {
        type: 'service_account',
        project_id: PROJECT_ID,
        private_key_id: '1',
        private_key: privateKey,
        client_email: `worker@${PROJECT_ID}.iam.gserviceaccount.com`,
        client_id: '1',
        // Nothing answers there: a client that signs in fails here, and not at Google.
        token_uri: `${url}/token`,
      };
      return `${JSON.stringify(account, null, 2)}\n`;
    },
    read: (text) => (JSON.parse(text) as { private_key: string }).private_key,
  },
};

export const FCM_SERVER: ServerKind<FcmServer> = {
  host: 'fcm.googleapis.com',
  key,
  create: (options) => new FcmServer({ ...options, projectId: PROJECT_ID }),
  urlVariable: 'FCM_ENDPOINT',
  env: ({ key: account, ca }) => ({
    FCM_CA_FILE: ca,
    FCM_PROJECT_ID: PROJECT_ID,
    GOOGLE_APPLICATION_CREDENTIALS: account,
  }),
};
