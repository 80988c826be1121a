import type { ReplyEvent } from '../src/delivery/parts.ts';
import type { Logger } from '../src/observe/log.ts';
import type { Metrics } from '../src/observe/metrics.ts';
import { reportInvalidToken, type StreamRedis } from '../src/queue/invalid-tokens.ts';

export interface ReplyListenerParts {
  readonly redis: StreamRedis;
  readonly prefix: string;
  readonly metrics: Pick<Metrics, 'reply'>;
  readonly log: Logger;
}

/** Hears every provider's answer: counts it, tells a refusal in the log, and reports tokens that are gone to the producer. */
export function createReplyListener({
  redis,
  prefix,
  metrics,
  log,
}: ReplyListenerParts): (event: ReplyEvent) => void | Promise<void> {
  return ({ notification, device, label, reply, tookMs }) => {
    metrics.reply(device.platform, reply.meaning, tookMs);
    if (reply.meaning === 'accepted') return;
    const { code, detail } = reply;
    const names = { id: notification.id, recipientId: notification.recipientId, device: label };
    const line = { ...names, meaning: reply.meaning, code, ...(detail !== undefined && { detail }) };
    log[isOurs(reply) ? 'error' : 'info'](line, 'the provider did not accept the alert');

    if (reply.meaning !== 'gone') return;
    const entry = {
      recipientId: notification.recipientId,
      platform: device.platform,
      token: device.token,
      reason: code,
      timestamp: reply.goneSince ?? Date.now(),
    };
    return reportInvalidToken(redis, prefix, entry).catch((error: unknown) => {
      log.error({ ...names, err: error }, 'an invalid token could not be reported');
    });
  };
}

/** Refused for our credentials or configuration: somebody has to mend them. */
function isOurs({ trouble }: ReplyEvent['reply']): boolean {
  return trouble === 'auth' || trouble === 'configuration';
}
