import type { Account } from '../domain/account.ts';
import type { Over, Quota } from '../quota/quota.ts';
import type { Context, QuotaWait, ReadyDevice } from './context.ts';
import type { DeliverParts } from './parts.ts';

/**
 * Takes a token of its provider's quota for each device that is ready. A device for which there is no token stays open and
 * is tried when the quota has room: `context.quotaWait`. Undefined where no device has a quota: there is nothing to wait for.
 */
export function takeTokens(context: Context, { quotas }: Pick<DeliverParts, 'quotas'>): Promise<void> | undefined {
  if (!context.ready.some(({ account }) => quotas.get(account) !== undefined)) return undefined;
  return takeAll(context, quotas);
}

async function takeAll(context: Context, quotas: DeliverParts['quotas']): Promise<void> {
  const { ready, progress } = context;
  const accounts = [...new Set(ready.map(({ account }) => account))];
  const answers = await Promise.all(
    accounts.map((account) => {
      const devices = ready.filter((device) => device.account === account);
      return takeFor(account, devices, quotas.get(account), progress.quotaAt?.[account]);
    }),
  );
  context.ready = answers.flatMap(({ withToken }) => withToken);
  context.tokensUntil = Math.min(...answers.map(({ useBy }) => useBy));
  const waits = answers.flatMap(({ wait }) => wait ?? []);
  context.quotaWait = waits.toSorted((a, b) => a.waitMs - b.waitMs)[0];
  const quotaAt = Object.fromEntries(waits.map(({ account, at }) => [account, at]));
  context.progress = { ...progress, quotaAt: waits.length > 0 ? quotaAt : undefined };
}

/** What the quota of one account answered. */
interface TokensOfAccount {
  readonly withToken: readonly ReadyDevice[];
  readonly useBy: number;
  readonly wait?: QuotaWait & { readonly account: Account; readonly at: Over['at'] };
}

/** One device after the other, up to the first that has to wait: a quota sets room aside for each ask without a token. */
async function takeFor(
  account: Account,
  devices: readonly ReadyDevice[],
  quota: Pick<Quota, 'take'> | undefined,
  promisedAt: number | undefined,
): Promise<TokensOfAccount> {
  let useBy = Infinity;
  if (quota === undefined) return { withToken: devices, useBy };
  for (const index of devices.keys()) {
    const answer = await quota.take(index === 0 ? promisedAt : undefined);
    if (answer.kind === 'over') {
      const { waitMs, at } = answer;
      const wait = { account, at, waitMs, rule: `${account}:${answer.rule}`, dueAt: performance.now() + waitMs };
      return { withToken: devices.slice(0, index), useBy, wait };
    }
    useBy = Math.min(useBy, answer.useBy);
  }
  return { withToken: devices, useBy };
}
