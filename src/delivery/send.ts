import { errorChain } from '../domain/error-chain.ts';
import type { Device, Notification, Platform } from '../domain/notification.ts';
import { redact } from '../domain/redact.ts';
import type { Reply } from '../providers/provider.ts';
import { record, type Tried } from './conclude.ts';
import type { Ready } from './devices.ts';
import type { Entries } from './entries.ts';
import type { Progress } from './progress.ts';
import type { Transit } from './transit.ts';

/** A try, with the instant (`performance.now()`) by which the alert had most likely reached the provider. */
export interface Arrived extends Tried {
  readonly platform: Platform;
  readonly arrivedAt: number;
}

export interface SendParts {
  readonly now: () => number;
  readonly transit: Transit;
  readonly atMostOnce: boolean;
  /** Told of each answer. Awaited, so that what it tells somebody is told before the job can end; it must not reject. */
  readonly onReply: (event: ReplyEvent) => void | Promise<void>;
}

/** One answer of a provider. */
export interface ReplyEvent {
  readonly notification: Notification;
  readonly device: Device;
  readonly label: string;
  readonly reply: Reply;
  readonly tookMs: number;
}

/** One round of sends. */
export interface Round {
  readonly notification: Notification;
  readonly ready: readonly Ready[];
  readonly progress: Progress;
  readonly entries: Pick<Entries, 'report'>;
  /** What has not left by then must not leave any more: `performance.now()`. */
  readonly leaveBy: number;
  readonly signal: AbortSignal;
  /** Keeps what has been reached, against a crash. */
  readonly save: (progress: Progress) => Promise<unknown>;
}

/** Sends to every device at once. Each acknowledged device is saved as long as others are under way. */
export async function sendAll(round: Round, parts: SendParts): Promise<readonly Arrived[]> {
  const { notification, ready, progress, entries, leaveBy, signal, save } = round;
  const tried: Arrived[] = [];
  const one = async ({ label, device, send }: Ready): Promise<void> => {
    const startedAt = performance.now();
    const reply = await answerOf(() => send({ signal, leaveBy }), notification);
    const repliedAt = performance.now();
    const { platform } = device;
    entries.report(platform, notification.id, reply);
    await parts.onReply({ notification, device, label, reply, tookMs: repliedAt - startedAt });
    tried.push({ label, platform, reply, arrivedAt: parts.transit.arrival(platform, startedAt, repliedAt) });
    if (tried.length === ready.length) return;
    // Against a crash only; a save that fails must not send the others again. The end of the pass keeps all of it.
    const reached = record(progress, tried, parts.now(), parts.atMostOnce);
    await save({ ...reached, trying: stillTrying(progress, tried) }).catch(() => undefined);
  };
  await Promise.all(ready.map(one));
  return tried;
}

/** Under AT_MOST_ONCE: the announced devices that have not answered. */
function stillTrying({ trying }: Progress, tried: readonly Tried[]): Progress['trying'] {
  return trying?.filter((label) => !tried.some((each) => each.label === label));
}

/** A client that throws is a bug, and nobody knows how far it came. What the other devices answered must not be lost with it. */
async function answerOf(send: () => Promise<Reply>, notification: Notification): Promise<Reply> {
  try {
    return await send();
  } catch (error) {
    const detail = redact(errorChain(error), notification);
    return { meaning: 'later', code: 'unexpected-error', alerted: 'maybe', ambiguous: true, detail };
  }
}
