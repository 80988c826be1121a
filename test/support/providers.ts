import { readFile } from 'node:fs/promises';
import { onTestFinished } from 'vitest';
import { type ApnsOptions, createApnsProvider } from '../../src/providers/apns/apns.ts';
import { createFcmProvider, type FcmOptions } from '../../src/providers/fcm/fcm.ts';
import type { Provider, Push, Reply, SendOptions } from '../../src/providers/provider.ts';
import { createWebpushProvider, type WebpushOptions } from '../../src/providers/webpush/webpush.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';

export { openSandbox } from './sandbox.ts';

/** What points an APNs provider at the loopback server. */
export async function apnsOptions(sandbox: Sandbox): Promise<ApnsOptions> {
  const env = sandbox.env();
  return {
    key: await readFile(variable(env, 'APNS_KEY_FILE'), 'utf8'),
    keyId: variable(env, 'APNS_KEY_ID'),
    teamId: variable(env, 'APNS_TEAM_ID'),
    topic: variable(env, 'APNS_TOPIC'),
    endpoint: variable(env, 'APNS_ENDPOINT'),
    ca: await readFile(sandbox.caFile, 'utf8'),
  };
}

/** What points an FCM provider at the loopback server. */
export async function fcmOptions(sandbox: Sandbox): Promise<FcmOptions> {
  const env = sandbox.env();
  return {
    projectId: variable(env, 'FCM_PROJECT_ID'),
    endpoint: variable(env, 'FCM_ENDPOINT'),
    ca: await readFile(sandbox.caFile, 'utf8'),
  };
}

/** An APNs provider on the loopback, closed when the test ends. */
export async function openApns(sandbox: Sandbox, options: Partial<ApnsOptions> = {}): Promise<Provider> {
  return closedAtEnd(createApnsProvider({ ...(await apnsOptions(sandbox)), ...options }));
}

/** An FCM provider on the loopback, closed when the test ends. */
export async function openFcm(sandbox: Sandbox, options: Partial<FcmOptions> = {}): Promise<Provider> {
  return closedAtEnd(createFcmProvider({ ...(await fcmOptions(sandbox)), ...options }));
}

/** A web push provider on the loopback, closed when the test ends. */
export async function openWebpush(sandbox: Sandbox, options: Partial<WebpushOptions> = {}): Promise<Provider> {
  const env = sandbox.env();
  const provider = createWebpushProvider({
    vapidKey: await readFile(variable(env, 'WEBPUSH_VAPID_PRIVATE_KEY_FILE'), 'utf8'),
    subject: variable(env, 'WEBPUSH_SUBJECT'),
    origins: [variable(env, 'WEBPUSH_ORIGINS')],
    ca: await readFile(sandbox.caFile, 'utf8'),
    ...options,
  });
  return closedAtEnd(provider);
}

/** Prepares and sends; a push that is refused before it is sent answers with that. */
export async function sendPush(provider: Provider, push: Push, options?: SendOptions): Promise<Reply> {
  const prepared = provider.prepare(push);
  return prepared.kind === 'ready' ? provider.send(prepared.encoded, options) : prepared.reply;
}

function closedAtEnd(provider: Provider): Provider {
  onTestFinished(() => provider.close());
  return provider;
}

function variable(env: Readonly<Record<string, string>>, name: string): string {
  const value = env[name];
  if (value === undefined) throw new Error(`the sandbox's environment has no ${name}`);
  return value;
}
