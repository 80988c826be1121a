import { createServer } from 'node:http';
import { gcpMetadata } from 'google-auth-library';
import { expect, onTestFinished, test, vi } from 'vitest';
import { createGoogleCredential } from '../../src/providers/fcm/fcm.ts';
import { portOf } from '../support/listen.ts';

const SCOPE = 'https://www.googleapis.com/auth/firebase.messaging';
const ANSWER = JSON.stringify({ access_token: 'from-google', expires_in: 3_600, token_type: 'Bearer' });

/** A metadata server of Google, for a process that finds no key file. */
async function openMetadata(detection?: 'assume-present') {
  const asked: URL[] = [];
  const server = createServer((request, response) => {
    asked.push(new URL(request.url ?? '', 'http://metadata'));
    response.setHeader('metadata-flavor', 'Google').setHeader('content-type', 'application/json').end(ANSWER);
  });
  const port = await portOf(server);
  vi.stubEnv('GCE_METADATA_HOST', `127.0.0.1:${port}`);
  vi.stubEnv('GOOGLE_APPLICATION_CREDENTIALS', undefined);
  vi.stubEnv('HOME', '/nonexistent');
  vi.stubEnv('METADATA_SERVER_DETECTION', detection);
  onTestFinished(() => void vi.unstubAllEnvs());
  return { asked, server, port };
}

test('application default credentials ask for the scope of messages alone, here at a metadata server', async () => {
  const { asked } = await openMetadata('assume-present');
  expect(await createGoogleCredential(undefined, 'school-app', Date.now).obtain()).toBe('Bearer from-google');
  // The project is known, so the library does not look for it: not there, nor with the program gcloud.
  expect(asked.map(({ pathname }) => pathname.split('/').at(-1))).toEqual(['token']);
  expect(asked.map(({ searchParams }) => searchParams.get('scopes'))).toEqual([SCOPE]);
});

test('a metadata server that does not answer yet counts as not reached, and is asked anew', async () => {
  const { server, port } = await openMetadata();
  server.close();
  gcpMetadata.setGCPResidency(false); // as in a container, which shows nothing of the machine below it
  onTestFinished(() => gcpMetadata.setGCPResidency());
  const clock = { ms: Date.now() };
  const credential = createGoogleCredential(undefined, 'school-app', () => clock.ms);
  expect(await credential.obtain()).toMatchObject({ code: 'sign-in-unreachable', unsent: true });
  expect(credential.reach?.()).toMatchObject({
    isSignIn: true,
    failure: { cause: 'NO_DEFAULT_CREDENTIALS', detail: expect.stringContaining('Could not load') as string },
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  clock.ms += 60_000;
  expect(await credential.obtain()).toBe('Bearer from-google');
});
