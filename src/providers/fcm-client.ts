import { randomUUID } from 'node:crypto';
import { deleteApp, initializeApp } from 'firebase-admin/app';
import type { Credential } from 'firebase-admin/app';
import { getMessaging } from 'firebase-admin/messaging';
import type { Messaging } from 'firebase-admin/messaging';
import type { FcmAgent } from './fcm-agent.ts';
import type { FcmMessage } from './fcm-message.ts';

export interface FcmClientOptions {
  readonly projectId: string;
  readonly credential: Credential;
  readonly agent: FcmAgent;
}

export interface FcmClient {
  /**
   * Resolves with FCM's name for the message once FCM took it, and with none where a 200 names none; rejects with what
   * firebase-admin throws. One request, never a second one.
   */
  send(message: FcmMessage): Promise<string | undefined>;
  /** As `send`, but FCM only looks at it: nobody is alerted. */
  validate(message: FcmMessage): Promise<string>;
  close(): Promise<void>;
}

/** firebase-admin's `send()` over our connections, in an app of its own, with its inner retry switched off. */
export function createFcmClient({ projectId, credential, agent }: FcmClientOptions): FcmClient {
  const app = initializeApp({ projectId, credential, httpAgent: agent }, `pushpacer-${randomUUID()}`);
  const messaging = getMessaging(app);
  switchOffRetry(messaging);
  const end = async (): Promise<void> => {
    await deleteApp(app);
    agent.destroy();
  };
  let ended: Promise<void> | undefined;
  return {
    send: (message) => messaging.send(message),
    validate: (message) => messaging.send(message, true),
    close: () => (ended ??= end()), // an app that was deleted cannot be deleted again
  };
}

/**
 * firebase-admin sends the same alert up to five times, over 82 seconds where the server hangs, and has no public switch
 * for it. This leans on a private field, so the version is pinned, and another one is refused rather than trusted.
 */
export function switchOffRetry(messaging: Messaging): void {
  const { messagingRequestHandler } = messaging as unknown as {
    messagingRequestHandler?: { httpClient?: { retry?: { maxRetries?: unknown } } };
  };
  const retry = messagingRequestHandler?.httpClient?.retry;
  if (typeof retry?.maxRetries !== 'number') {
    const field = 'messagingRequestHandler.httpClient.retry.maxRetries';
    throw new Error(
      `firebase-admin: expected ${field} as in version 14.5.1, found none; its retry cannot be switched off`,
    );
  }
  retry.maxRetries = 0;
}
