import type { Breakers, BreakerAnswer } from '../breaker/breaker.ts';
import { accountOf, type Account } from '../domain/account.ts';
import type { Reply } from '../providers/provider.ts';
import type { Context } from './context.ts';
import { openAccounts } from './devices.ts';

interface Parts {
  readonly breakers: Breakers;
}

/**
 * Asks the circuit breakers that are not closed whether this notification may be sent; a half open one may make it the
 * trial. Undefined where all are closed: there is nothing to ask.
 */
export function askBreakers(context: Context, { breakers }: Parts): Promise<unknown> | undefined {
  const isNotClosed = (account: Account): boolean => breakers.current(account) !== undefined;
  if (!context.notification.devices.some((device) => isNotClosed(accountOf(device)))) return undefined;
  const answers = (context.breakerAnswers = new Map<Account, BreakerAnswer>());
  const ask = async (account: Account): Promise<void> => {
    answers.set(account, await breakers.enter(account, context.notification.id));
  };
  return Promise.all(openAccounts(context).filter(isNotClosed).map(ask));
}

/** Tells the breaker of a reply, if the reply says something about the provider; the first reply ends a trial. */
export function reportReply(context: Context, account: Account, reply: Reply, { breakers }: Parts): void {
  if (!isAboutProvider(reply)) return;
  const { notification, breakerAnswers } = context;
  const { code, trouble, suspect, retryAfterMs } = reply;
  const { id: notificationId, recipientId } = notification;
  const evidence = { account, notificationId, recipientId, code, trouble, suspect, retryAfterMs };
  const answer = breakerAnswers?.get(account);
  if (answer?.kind === 'trial') {
    breakerAnswers?.delete(account);
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
