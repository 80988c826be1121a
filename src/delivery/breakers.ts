import type { Breakers, BreakerAnswer } from '../breaker/breaker.ts';
import { PLATFORMS, type Platform } from '../domain/notification.ts';
import type { Reply } from '../providers/provider.ts';
import type { Context } from './context.ts';
import { openPlatforms } from './devices.ts';

interface Parts {
  readonly breakers: Breakers;
}

/**
 * Asks the circuit breakers that are not closed whether this notification may be sent; a half open one may make it the
 * trial. Undefined where all are closed: there is nothing to ask.
 */
export function askBreakers(context: Context, { breakers }: Parts): Promise<unknown> | undefined {
  const isNotClosed = (platform: Platform): boolean => breakers.current(platform) !== undefined;
  if (!PLATFORMS.some(isNotClosed)) return undefined;
  const answers = (context.breakerAnswers = new Map<Platform, BreakerAnswer>());
  const ask = async (platform: Platform): Promise<void> => {
    answers.set(platform, await breakers.enter(platform, context.notification.id));
  };
  return Promise.all(openPlatforms(context).filter(isNotClosed).map(ask));
}

/** Tells the breaker of a reply, if the reply says something about the provider; the first reply ends a trial. */
export function reportReply(context: Context, platform: Platform, reply: Reply, { breakers }: Parts): void {
  if (!isAboutProvider(reply)) return;
  const { notification, breakerAnswers } = context;
  const { code, trouble, suspect, retryAfterMs } = reply;
  const { id: notificationId, recipientId } = notification;
  const evidence = { platform, notificationId, recipientId, code, trouble, suspect, retryAfterMs };
  const answer = breakerAnswers?.get(platform);
  if (answer?.kind === 'trial') {
    breakerAnswers?.delete(platform);
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
