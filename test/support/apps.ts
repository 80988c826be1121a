import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { temporaryFolder } from './program.ts';

/** An app that the loopback servers know, with a block for APPS_FILE. */
interface TestApp {
  readonly name: string;
  readonly keyId: string;
  readonly teamId: string;
  readonly topic: string;
  readonly projectId: string;
  readonly blocks: { readonly apns: Readonly<Record<string, string>>; readonly fcm: Readonly<Record<string, string>> };
}

export interface TestApps {
  /** The path of APPS_FILE. */
  readonly path: string;
  /** The folder of the file and of its keys. */
  readonly folder: string;
  /** A new app: its key is written, and the loopback servers accept it. */
  make(name: string, keyId?: string): Promise<TestApp>;
  /** Writes APPS_FILE with these blocks by app. */
  write(apps: Readonly<Record<string, unknown>>): Promise<void>;
}

/** Apps with keys, teams, topics and projects of their own at the sandbox's servers. */
export async function openApps(sandbox: Sandbox): Promise<TestApps> {
  const folder = await temporaryFolder();
  const path = join(folder, 'apps.json');
  const { APNS_ENDPOINT = '', FCM_ENDPOINT = '' } = sandbox.env();
  return {
    path,
    folder,
    async make(name, keyId = `${name.toUpperCase()}KEY`) {
      const app = {
        name,
        keyId,
        teamId: `${name.toUpperCase()}TEAM`,
        topic: `dev.school.${name}`,
        projectId: `school-${name}`,
      };
      const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
      const keyFile = `${keyId}.p8`;
      await writeFile(join(folder, keyFile), privateKey.export({ type: 'pkcs8', format: 'pem' }));
      const { teamId, topic, projectId } = app;
      sandbox.apns.addKey({ signer: { publicKey: createPublicKey(privateKey), keyId, teamId }, topic });
      sandbox.fcm.addProject(projectId);
      const apns = { keyFile, keyId, teamId, topic, endpoint: APNS_ENDPOINT, caFile: sandbox.caFile };
      return { ...app, blocks: { apns, fcm: { projectId, endpoint: FCM_ENDPOINT, caFile: sandbox.caFile } } };
    },
    write: (apps) => writeFile(path, JSON.stringify({ apps })),
  };
}
