import { accountOf, serviceOfDevice, tokenOf } from '../src/domain/device.ts';
import type { Breakers } from '../src/breaker/breaker.ts';
import type { ReplyEvent } from '../src/delivery/context.ts';
import { needsOperator } from '../src/domain/outcome.ts';
import type { Logger } from '../src/observe/log.ts';
import type { Metrics } from '../src/observe/metrics.ts';
import type { Reply } from '../src/providers/provider.ts';
import { reportInvalidToken, type StreamRedis } from '../src/queue/outcomes.ts';

interface ReplyListenerParts {
  readonly redis: StreamRedis;
  readonly prefix: string;
  readonly breakers: Pick<Breakers, 'current'>;
  readonly metrics: Pick<Metrics, 'reply'>;
  readonly log: Logger;
}

/** Counts each reply, logs those that are no acceptance, and reports tokens that are gone or wrong to the producer. */
export function createReplyListener({
  redis,
  prefix,
  breakers,
  metrics,
  log,
}: ReplyListenerParts): (event: ReplyEvent) => void | Promise<void> {
  return ({ notification, device, label, reply, tookMs }) => {
    metrics.reply(accountOf(device), reply.meaning, tookMs);
    if (reply.meaning === 'accepted') return;
    const { code, detail } = reply;
    const app = device.app !== undefined && { app: device.app };
    const names = { id: notification.id, recipientId: notification.recipientId, device: label, ...app };
    const line = { ...names, meaning: reply.meaning, code, ...(detail !== undefined && { detail }) };
    log[levelOf(reply)](line, messageOf(reply));

    if (reply.meaning !== 'gone' && reply.meaning !== 'bad-token') return;
    // While the breaker says that the app's configuration is wrong, a token may be a good one.
    const isMisconfigured = breakers.current(serviceOfDevice(device))?.trouble === 'configuration';
    if (reply.meaning === 'bad-token' && isMisconfigured) return;
    const entry = {
      recipientId: notification.recipientId,
      platform: device.platform,
      token: tokenOf(device),
      ...app,
      meaning: reply.meaning,
      reason: code,
      timestamp: reply.goneSince ?? Date.now(),
    };
    return reportInvalidToken(redis, prefix, entry).catch((error: unknown) => {
      log.error({ ...names, err: error }, NOT_REPORTED);
    });
  };
}

const NOT_REPORTED =
  'an invalid token could not be reported to the stream of invalid tokens; the next alert to it reports it again';

/** An operator has to act on refused credentials, a producer on a refused alert; the rest is everyday. */
function levelOf({ meaning, trouble, setUp }: Reply): 'error' | 'warn' | 'info' {
  if (needsOperator(trouble) || setUp === true) return 'error';
  return meaning === 'bad-token' || meaning === 'rejected' ? 'warn' : 'info';
}

/** What comes next for the device. What comes next for the notification is in the line of the pass. */
function messageOf({ meaning, trouble, unsent, setUp }: Reply): string {
  if (setUp === true) return SET_UP;
  if (needsOperator(trouble))
    return 'the provider refuses the credentials or the app: deferred; the line of its circuit breaker tells what to do';
  if (unsent === true) return 'not sent to the device: tried again at no attempt';
  return MESSAGES[meaning];
}

const SET_UP =
  "Google's own key for such devices is missing or has expired, for many recipients: deferred at no attempt, for a day at most; " +
  "check the app's APNs key, or its web push key, in Firebase";

const MESSAGES: Readonly<Record<Reply['meaning'], string>> = {
  accepted: 'accepted',
  gone: 'the token is no longer valid: the device is not tried again, and the token is reported to the producer',
  'bad-token':
    'the token is not valid for this app: the device is not tried again, and the token is reported to the producer; check where ' +
    'the producer has it from',
  rejected: 'the provider refuses the alert: the device is not tried again; `code` and `detail` tell why',
  later:
    'the provider did not confirm the alert: the line of this pass tells whether and when the device is tried again',
};
