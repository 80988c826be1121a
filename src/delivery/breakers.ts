import type { Breakers, BreakerAnswer } from '../breaker/breaker.ts';
import type { Service } from '../domain/account.ts';
import { serviceOfDevice } from '../domain/device.ts';
import type { Reply } from '../providers/provider.ts';
import type { Context } from './context.ts';
import { openServices } from './devices.ts';

interface Parts {
  readonly breakers: Breakers;
}

/**
 * Asks the circuit breakers that are not closed whether this notification may be sent; a half open one may make it the
 * trial. Undefined where all are closed: there is nothing to ask.
 */
export function askBreakers(context: Context, { breakers }: Parts): Promise<unknown> | undefined {
  const isNotClosed = (service: Service): boolean => breakers.current(service) !== undefined;
  if (!context.notification.devices.some((device) => isNotClosed(serviceOfDevice(device)))) return undefined;
  const answers = (context.breakerAnswers = new Map<Service, BreakerAnswer>());
  const ask = async (service: Service): Promise<void> => {
    answers.set(service, await breakers.enter(service, context.notification.recipientId));
  };
  return Promise.all(openServices(context).filter(isNotClosed).map(ask));
}

/** Tells the breaker of a reply, if the reply says something about the provider; the first reply ends a trial. */
export function reportReply(context: Context, service: Service, reply: Reply, { breakers }: Parts): void {
  if (!isAboutProvider(reply)) return;
  const { notification, breakerAnswers } = context;
  const { code, trouble, suspect, retryAfterMs } = reply;
  const { recipientId } = notification;
  const evidence = { service, recipientId, code, trouble, suspect, retryAfterMs };
  const answer = breakerAnswers?.get(service);
  if (answer?.kind === 'trial') {
    breakerAnswers?.delete(service);
    breakers.report(evidence, answer.trial);
  } else breakers.report(evidence);
}

/** Gives back the trials on which nothing was sent: another notification may have them. */
export function releaseTrials({ breakerAnswers }: Context, { breakers }: Parts): void {
  if (breakerAnswers === undefined) return;
  for (const answer of breakerAnswers.values()) if (answer.kind === 'trial') breakers.release(answer.trial);
}

/** What this worker gave up, or did not send for a reason of its own, says nothing about the provider. */
function isAboutProvider({ unsent, trouble, suspect, code }: Reply): boolean {
  return trouble !== undefined || suspect !== undefined || (unsent !== true && code !== 'aborted');
}
