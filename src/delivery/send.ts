import type { Device, Notification } from '../domain/notification.ts';
import type { Reply } from '../providers/provider.ts';
import { record, type Tried } from './conclude.ts';
import type { Ready } from './devices.ts';
import type { Gate } from './gate.ts';
import type { Progress } from './progress.ts';
import type { Transit } from './transit.ts';

/** A try, with the instant (`performance.now()`) by which the alert had most likely reached the provider. */
export interface Arrived extends Tried {
  readonly arrivedAt: number;
}

export interface Sent {
  readonly tried: readonly Arrived[];
  /** As it was before this round. */
  readonly progress: Progress;
}

export interface SendParts {
  readonly gate: Gate;
  readonly now: () => number;
  readonly transit: Transit;
  /** Told of each answer. */
  readonly onReply: (event: ReplyEvent) => void;
}

/** One answer of a provider. */
export interface ReplyEvent {
  readonly notification: Notification;
  readonly device: Device;
  readonly label: string;
  readonly reply: Reply;
  readonly tookMs: number;
}

/** Where a refusal of credentials or a call to slow down names no time. */
const PAUSE_MS = 30_000;

/** Sends to every device at once. Each acknowledged device is saved as long as others are under way. */
export async function sendAll(
  notification: Notification,
  ready: readonly Ready[],
  progress: Progress,
  pass: { readonly save: (progress: Progress) => Promise<void>; readonly signal: AbortSignal },
  parts: SendParts,
): Promise<Sent> {
  const tried: Arrived[] = [];
  const one = async ({ label, device, send }: Ready): Promise<void> => {
    const startedAt = performance.now();
    const reply = await send({ signal: pass.signal });
    const repliedAt = performance.now();
    parts.onReply({ notification, device, label, reply, tookMs: repliedAt - startedAt });
    const arrivedAt = parts.transit.arrival(device.platform, startedAt, repliedAt);
    if (reply.trouble === 'auth' || reply.trouble === 'quota') {
      parts.gate.pause(device.platform, reply.retryAfterMs ?? PAUSE_MS);
    }
    tried.push({ label, reply, arrivedAt });
    if (tried.length === ready.length) return;
    // Against a crash only; a save that fails must not send the others again. The end of the pass keeps all of it.
    await pass.save(record(progress, tried, parts.now())).catch(() => undefined);
  };
  await Promise.all(ready.map(one));
  return { tried, progress };
}
