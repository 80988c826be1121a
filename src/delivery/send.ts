import { errorChain } from '../domain/error-chain.ts';
import { redact } from '../domain/redact.ts';
import type { Reply } from '../providers/provider.ts';
import { transportReply } from '../providers/replies.ts';
import { noteTrying } from './at-most-once.ts';
import { timeLeftMs, type Context, type ReadyDevice } from './context.ts';
import type { DeliverParts } from './parts.ts';
import type { Progress } from './progress.ts';
import { takeTokens } from './quota.ts';
import { noteReply, record } from './replies.ts';

/**
 * - `sent`: every device that had a token was tried; `context.tried` has the replies
 * - `lock-lost`: nothing was sent, another worker may have the job
 * - `not-noted`: nothing was sent, because Redis did not note what was to be sent (AT_MOST_ONCE)
 */
export type Sent = 'sent' | 'lock-lost' | 'not-noted';

/**
 * All that must be done before a send and may wait for an answer: tokens of the quotas, and under AT_MOST_ONCE a note of what is
 * to be sent. Done before the slot, so that nothing stands between the slot and the send. Undefined: there is nothing to wait for.
 */
export function prepareSend(context: Context, parts: DeliverParts): Promise<void> | undefined {
  const taking = takeTokens(context, parts);
  if (!parts.atMostOnce) return taking;
  return (async () => {
    await taking;
    if (context.ready.length === 0) return;
    const noted = await noteTrying(context);
    if (noted !== 'noted') context.notPrepared = noted;
  })();
}

/** Sends to the devices that are ready, while the job is this worker's. Everything is prepared. */
export async function send(context: Context, parts: DeliverParts): Promise<Sent> {
  const { ready, lock, slot, tokensUntil, notPrepared } = context;
  const [first] = ready;
  if (first === undefined) return 'sent';
  if (notPrepared !== undefined) return notPrepared;
  if (!(await lock.isValid())) return 'lock-lost';
  const expiresAt = performance.now() + timeLeftMs(context, parts);
  context.sendBy = Math.min(slot?.sendBy ?? Infinity, tokensUntil, lock.until, expiresAt);
  if (ready.length === 1) await sendOne(context, first, parts);
  else await sendAll(context, parts);
  const { progress } = context;
  // The slot is used: the devices that are left ask for another one. Where it was too late for all, the same one is asked for anew.
  if (slot !== undefined)
    context.progress = isTooLate(context) ? { ...progress, unsent: true } : { ...progress, asks: progress.asks + 1 };
  return 'sent';
}

/** Whether a reply leaves it possible that the recipient was alerted. */
export function mayHaveAlerted({ tried }: Context): boolean {
  return tried.some(({ reply }) => reply.alerted !== 'no');
}

/** A stream was refused, or credentials had expired, and the next try would have left too long after the slot. */
function isTooLate({ tried }: Context): boolean {
  return tried.every(({ reply }) => reply.unsent === true && reply.code === 'too-late');
}

/** Sends to all devices at once. A reply is saved while other devices are under way. */
async function sendAll(context: Context, parts: DeliverParts): Promise<void> {
  const saver = createSaver(context, parts);
  const sendNext = async (device: ReadyDevice): Promise<void> => {
    await sendOne(context, device, parts);
    saver.soon();
  };
  await Promise.all(context.ready.map(sendNext));
  await saver.end();
}

async function sendOne(context: Context, device: ReadyDevice, parts: DeliverParts): Promise<void> {
  const { permit } = device;
  const startedAt = performance.now();
  let reply: Reply;
  try {
    reply = await device.provider.send(device.encoded, { permit, sendBy: context.sendBy });
  } catch (error) {
    // A bug, and it is unknown whether the alert was sent. The replies of the other devices must not be lost for it.
    reply = transportReply('unexpected-error', redact(errorChain(error), context.notification));
  }
  await noteReply(context, device, reply, performance.now() - startedAt, parts);
}

/** A crash loses the replies of the last so many milliseconds, while other devices of the notification are under way. */
const SAVE_AFTER_MS = 100;

/** Saves replies a moment after they came. A save that fails changes nothing: the end of the pass saves them again. */
function createSaver(context: Context, { atMostOnce }: DeliverParts) {
  let timer: NodeJS.Timeout | undefined;
  let saving: Promise<unknown> | undefined;
  const save = (): void => {
    timer = undefined;
    const reached = { ...record(context, context.tried, atMostOnce), trying: stillTrying(context) };
    saving = context.lock.save(reached).catch(() => undefined);
  };
  return {
    soon: () => void (timer ??= setTimeout(save, SAVE_AFTER_MS)),
    end: async () => {
      clearTimeout(timer);
      await saving;
    },
  };
}

/** Under AT_MOST_ONCE: the noted devices that have not replied. */
function stillTrying({ progress, tried }: Context): Progress['trying'] {
  return progress.trying?.filter((label) => !tried.some((each) => each.label === label));
}
