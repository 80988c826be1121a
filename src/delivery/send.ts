import { errorChain } from '../domain/error-chain.ts';
import type { Platform } from '../domain/notification.ts';
import { redact } from '../domain/redact.ts';
import type { Permit, Reply } from '../providers/provider.ts';
import { transportReply } from '../providers/replies.ts';
import type { Context, DeliverParts } from './context.ts';
import { record, type Tried } from './decide.ts';
import type { Ready } from './devices.ts';
import type { Progress } from './progress.ts';

/** What can be sent, and what became of the devices whose provider has no stream. */
export interface Reservation {
  readonly ready: readonly Ready[];
  /** Certainly not sent: no connection, no sign-in. */
  readonly tried: readonly Tried[];
}

/** So long an acknowledged device may be lost in a crash while others of the notification are under way. */
const SAVE_AFTER_MS = 100;

/**
 * Sets a stream aside on each platform ahead of the ask for a slot: who waits for a connection waits without a slot, and is
 * not late for it. The other devices of a notification find theirs when they are sent. Every notification asks the
 * platforms in the same order: no two ever wait for a stream that the other one has.
 *
 * @param permits gets all that were set aside, for the caller to release what is not used
 */
export async function reserve(
  context: Context,
  ready: readonly Ready[],
  permits: Permit[],
  parts: DeliverParts,
): Promise<Reservation> {
  const tried: Tried[] = [];
  let lost: Set<Platform> | undefined;
  for (const first of firstOfEach(ready)) {
    const { platform } = first.device;
    const asked = first.provider.reserve();
    const reserved = asked instanceof Promise ? await asked : asked;
    if (reserved.kind === 'permit') {
      first.permit = reserved.permit;
      permits.push(reserved.permit);
      continue;
    }
    (lost ??= new Set()).add(platform);
    for (const each of ready) {
      if (each.device.platform !== platform) continue;
      const noted = note(context, each, reserved.reply, 0, parts);
      tried.push(noted instanceof Promise ? await noted : noted);
    }
  }
  const left = lost === undefined ? ready : ready.filter(({ device }) => !lost.has(device.platform));
  return { ready: left, tried };
}

/** One device of each platform, in the order of the platforms' names. */
function firstOfEach(ready: readonly Ready[]): readonly Ready[] {
  if (ready.length === 1) return ready;
  const first = new Map(ready.toReversed().map((each) => [each.device.platform, each]));
  return [...first.values()].toSorted((a, b) => (a.device.platform < b.device.platform ? -1 : 1));
}

/** How a round of sends is done. */
export interface Round {
  /** Nothing is handed to a connection later than this: `performance.now()`. */
  readonly sendBy: number;
  /** Told of each request that is handed to a connection, with that instant. */
  readonly onSent: (at: number) => void;
}

/** Sends to several devices at once. What was acknowledged is saved while others are still under way. */
export async function sendAll(
  context: Context,
  ready: readonly Ready[],
  round: Round,
  parts: DeliverParts,
): Promise<readonly Tried[]> {
  const tried: Tried[] = [];
  const saver = createSaver(context, tried, parts);
  const sendNext = async (each: Ready): Promise<void> => {
    tried.push(await sendOne(context, each, round, parts));
    saver.soon();
  };
  await Promise.all(ready.map(sendNext));
  await saver.end();
  return tried;
}

export async function sendOne(
  context: Context,
  ready: Ready,
  { sendBy, onSent }: Round,
  parts: DeliverParts,
): Promise<Tried> {
  const { permit } = ready;
  const startedAt = performance.now();
  let reply: Reply;
  try {
    reply = await ready.provider.send(ready.encoded, { permit, sendBy, onSent });
  } catch (error) {
    // A bug, and nobody knows how far it came. What the other devices answered must not be lost.
    reply = transportReply('unexpected-error', redact(errorChain(error), context.notification));
  }
  return note(context, ready, reply, performance.now() - startedAt, parts);
}

/** Saves what was acknowledged, a moment after it was. Against a crash only: one that fails is no reason to send again. */
function createSaver(context: Context, tried: readonly Tried[], { atMostOnce }: DeliverParts) {
  let timer: NodeJS.Timeout | undefined;
  let saving: Promise<unknown> | undefined;
  const save = (): void => {
    timer = undefined;
    const reached = record(context.progress, tried, atMostOnce);
    const trying = stillTrying(context.progress, tried);
    saving = context.lease.save({ ...reached, trying }).catch(() => undefined);
  };
  return {
    soon: () => void (timer ??= setTimeout(save, SAVE_AFTER_MS)),
    end: async () => {
      clearTimeout(timer);
      await saving;
    },
  };
}

/** Under AT_MOST_ONCE: the announced devices that have not answered. */
function stillTrying({ trying }: Progress, tried: readonly Tried[]): Progress['trying'] {
  return trying?.filter((label) => !tried.some((each) => each.label === label));
}

/** Tells the breakers and the listeners of one answer. */
function note(
  context: Context,
  { label, device }: Ready,
  reply: Reply,
  tookMs: number,
  parts: DeliverParts,
): Tried | Promise<Tried> {
  const { platform } = device;
  if (isAnswer(reply)) report(context, platform, reply, parts);
  const tried = { label, platform, reply, at: parts.now() };
  const listening = parts.onReply({ notification: context.notification, device, label, reply, tookMs });
  return listening instanceof Promise ? listening.then(() => tried) : tried;
}

function report(context: Context, platform: Platform, reply: Reply, { breakers }: DeliverParts): void {
  const { notification, entries } = context;
  const entry = entries?.get(platform);
  const { code, trouble, suspect, retryAfterMs } = reply;
  const { id: notificationId, recipientId } = notification;
  const evidence = { platform, notificationId, recipientId, code, trouble, suspect, retryAfterMs };
  if (entry?.kind === 'trial') {
    entries?.delete(platform); // its first answer decides
    breakers.report(evidence, entry.trial);
  } else breakers.report(evidence);
}

/** Whether it says something about the provider: what was given up, or never got there by our own fault, does not. */
function isAnswer({ unsent, trouble, suspect, code }: Reply): boolean {
  return trouble !== undefined || suspect !== undefined || (unsent !== true && code !== 'aborted');
}
