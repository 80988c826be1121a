import type { Service } from '../notification/device.ts';
import type { FailedAttempt } from '../notification/outcome.ts';
import { errorChain, redact } from '../notification/redact.ts';
import type { Reply } from '../providers/provider.ts';
import { transportReply } from '../providers/replies.ts';
import type { Over, Quota } from '../quota/quota.ts';
import { timeLeftMs, type Context, type Prepared, type QuotaWait, type ReadyDevice } from './context.ts';
import type { DeliverParts } from './parts.ts';
import { withAttempts, type Progress } from './progress.ts';
import { isAtMostOnce, noteReply, record } from './replies.ts';
import { beginRequest, endRequest } from './trace.ts';

const WORKER_ENDED = 'its worker ended while it was being sent';

/**
 * Under AT_MOST_ONCE: if a worker died while it was sending, its devices (`trying`, saved before the send) may have been
 * alerted. They are not sent to again.
 */
export function endInterrupted(progress: Progress, at: number): Progress {
  if (progress.trying === undefined) return progress;
  const { trying, ...rest } = progress;
  const interrupted = trying.filter((label) => !(label in progress.devices));
  const states = Object.fromEntries(interrupted.map((label) => [label, 'ambiguous' as const]));
  const failures = interrupted.map((device): FailedAttempt => ({ at, device, error: WORKER_ENDED }));
  return withAttempts({ ...rest, devices: { ...progress.devices, ...states } }, failures);
}

/**
 * Takes quota tokens and, under AT_MOST_ONCE, saves which devices are to be sent to. This may take time, so it is done before
 * the slot: the send can then follow the slot at once.
 */
export async function prepareSend(
  context: Context,
  devices: readonly ReadyDevice[],
  parts: DeliverParts,
): Promise<Prepared> {
  const prepared = await takeTokens(context, devices, parts);
  if (!isAtMostOnce(context, parts)) return prepared;
  if (prepared.ready.length === 0) {
    context.progress = { ...context.progress, trying: undefined }; // the devices of a slot that was missed
    return prepared;
  }
  const progress = { ...context.progress, trying: prepared.ready.map(({ label }) => label) };
  try {
    if (!(await context.lock.save(progress))) return { ...prepared, obstacle: 'lock-lost' };
    context.progress = progress;
    return prepared;
  } catch {
    return { ...prepared, obstacle: 'not-noted' };
  }
}

/** Takes a quota token for each ready device. A device without a token is tried when the quota has room (`quotaWait`). */
async function takeTokens(
  context: Context,
  ready: readonly ReadyDevice[],
  { quotas }: DeliverParts,
): Promise<Prepared> {
  const { progress } = context;
  /** A server with a quota of its own counts in that alone, so that no device needs two tokens. */
  const quotaOf = ({ account, service }: ReadyDevice): Service =>
    service !== account && quotas.get(service) !== undefined ? service : account;
  const isUnlimited = ready.every((device) => quotas.get(quotaOf(device)) === undefined);
  if (isUnlimited) return { ready, tokensUntil: Infinity, quotaWait: undefined };
  const names = [...new Set(ready.map(quotaOf))];
  const answers = await Promise.all(
    names.map((name) => {
      const devices = ready.filter((device) => quotaOf(device) === name);
      return takeFor(name, devices, quotas.get(name), progress.quotaAt?.[name]);
    }),
  );
  const waits = answers.flatMap(({ wait }) => wait ?? []);
  const quotaAt = Object.fromEntries(waits.map(({ name, at }) => [name, at]));
  context.progress = { ...progress, quotaAt: waits.length > 0 ? quotaAt : undefined };
  return {
    ready: answers.flatMap(({ withToken }) => withToken),
    tokensUntil: Math.min(...answers.map(({ useBy }) => useBy)),
    quotaWait: waits.toSorted((a, b) => a.waitMs - b.waitMs)[0],
  };
}

/** What one quota answered. `useBy`: until when the tokens are good (`performance.now()`). `at`: the promised instant. */
interface TokensOfQuota {
  readonly withToken: readonly ReadyDevice[];
  readonly useBy: number;
  readonly wait?: QuotaWait & { readonly name: Service; readonly at: Over['at'] };
}

/**
 * Asks for one token per device. Stops at the first ask that must wait, because the quota sets room aside for each such ask.
 */
async function takeFor(
  name: Service,
  devices: readonly ReadyDevice[],
  quota: Pick<Quota, 'take'> | undefined,
  promisedAt: number | undefined,
): Promise<TokensOfQuota> {
  let useBy = Infinity;
  if (quota === undefined) return { withToken: devices, useBy };
  for (const index of devices.keys()) {
    const answer = await quota.take(index === 0 ? promisedAt : undefined);
    if (answer.kind === 'over') {
      const { waitMs, at } = answer;
      const wait = { name, at, waitMs, rule: `${name}:${answer.rule}`, dueAt: performance.now() + waitMs };
      return { withToken: devices.slice(0, index), useBy, wait };
    }
    useBy = Math.min(useBy, answer.useBy);
  }
  return { withToken: devices, useBy };
}

/**
 * Sends what is prepared, if this worker still has the job lock.
 *
 * - `sent`: every device that had a token was tried; `context.tried` has the replies
 * - `lock-lost`: nothing was sent, another worker may have the job
 * - `not-noted`: nothing was sent, because Redis did not save which devices were to be sent to (AT_MOST_ONCE)
 */
export async function send(
  context: Context,
  { ready, tokensUntil, obstacle }: Prepared,
  parts: DeliverParts,
): Promise<'sent' | 'lock-lost' | 'not-noted'> {
  const { lock, slot } = context;
  const [first] = ready;
  if (first === undefined) return 'sent';
  if (obstacle !== undefined) return obstacle;
  if (!(await lock.isValid())) return 'lock-lost';
  const expiresAt = performance.now() + timeLeftMs(context, parts);
  const sendBy = Math.min(slot?.sendBy ?? Infinity, tokensUntil, lock.until, expiresAt);
  if (ready.length === 1) await sendOne(context, first, sendBy, parts);
  else await sendAll(context, ready, sendBy, parts);
  const { progress } = context;
  // The slot is used, so the next ask, for devices that are left, has the next id. Only if it was too late for every device,
  // the next ask is for the same slot. `too-late`: a stream was refused or credentials had expired, and another try would have
  // left too late.
  const isTooLate = context.tried.every(({ reply }) => reply.unsent === true && reply.code === 'too-late');
  if (slot !== undefined)
    context.progress = isTooLate ? { ...progress, unsent: true } : { ...progress, asks: progress.asks + 1 };
  return 'sent';
}

/** Sends to all devices at once. A reply is saved while other devices are under way. */
async function sendAll(
  context: Context,
  ready: readonly ReadyDevice[],
  sendBy: number,
  parts: DeliverParts,
): Promise<void> {
  const saver = createSaver(context, parts);
  const sendNext = async (device: ReadyDevice): Promise<void> => {
    await sendOne(context, device, sendBy, parts);
    saver.soon();
  };
  await Promise.all(ready.map(sendNext));
  await saver.end();
}

/** `sendBy`: the request is not handed to a connection after this instant of `performance.now()`. */
async function sendOne(context: Context, device: ReadyDevice, sendBy: number, parts: DeliverParts): Promise<void> {
  const { permit } = device;
  const handedOverAt = performance.now();
  const span = context.trace && beginRequest(context.trace, device);
  let reply: Reply;
  context.underWay += 1;
  try {
    const options = { permit, sendBy, onStatus: span?.onStatus };
    reply = await device.provider.send(device.encoded, options);
  } catch (error) {
    // A bug, and it is unknown whether the alert was sent. The replies of the other devices must not be lost because of it.
    reply = transportReply('unexpected-error', redact(errorChain(error), context.notification));
  }
  if (span !== undefined) endRequest(span, device, reply);
  await noteReply(context, device, reply, handedOverAt, parts);
  context.underWay -= 1;
}

/** While other devices of the notification are under way, a crash loses the replies of at most this time. */
const SAVE_AFTER_MS = 100;

/** Saves replies a moment after they came. A save that fails changes nothing: the end of the pass saves them again. */
function createSaver(context: Context, parts: DeliverParts) {
  let timer: NodeJS.Timeout | undefined;
  let saving: Promise<unknown> | undefined;
  const save = (): void => {
    timer = undefined;
    const { progress, tried, lock } = context;
    // Under AT_MOST_ONCE: the noted devices that have not replied.
    const trying = progress.trying?.filter((label) => !tried.some((each) => each.label === label));
    saving = lock.save({ ...record(context, tried, parts), trying }).catch(() => undefined);
  };
  return {
    soon: () => void (timer ??= setTimeout(save, SAVE_AFTER_MS)),
    end: async () => {
      clearTimeout(timer);
      await saving;
    },
  };
}
