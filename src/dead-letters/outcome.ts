import { targetOf } from '../domain/device.ts';
import { waitOf, type DeviceState, type Outcome } from '../domain/ended.ts';
import { DEAD_LETTER_REASONS, type DeadLetter } from '../domain/outcome.ts';
import { waitsFrom } from '../domain/send-after.ts';
import { notificationIdOf } from '../queue/names.ts';
import type { JobHash } from './job-hash.ts';

/** A longer text is no valid field of a notification, and does not go into the stream. */
const LONGEST = 256;

/** The outcome of a job that becomes this dead letter. Its data may be anything, so only usable fields are taken. */
export function outcomeOf(jobId: string, job: JobHash, { reason, deadAt, generation }: DeadLetter): Outcome {
  const [recipientId, category] = [text(field(job.data, 'recipientId')), text(field(job.data, 'category'))];
  const sentAt = field(job.progress, 'sentAt');
  const isSent = typeof sentAt === 'number';
  return {
    id: text(field(job.data, 'id')) ?? notificationIdOf(jobId),
    ...(recipientId !== undefined && { recipientId }),
    ...(category !== undefined && { category }),
    ...targetOf(job.data),
    ...{ outcome: 'dead-lettered', reason, generation, enqueuedAt: job.timestamp },
    ...(isSent && { sentAt }),
    waitMs: waitOf(waitsFrom(job.timestamp, job.data), isSent ? sentAt : undefined, deadAt),
    devices: devicesOf(job.progress),
  };
}

function devicesOf(progress: unknown): Record<string, DeviceState> {
  const devices = field(progress, 'devices');
  if (typeof devices !== 'object' || devices === null) return {};
  return Object.fromEntries(
    Object.entries(devices).filter((entry): entry is [string, DeviceState] => isState(entry[1])),
  );
}

function isState(value: unknown): value is DeviceState {
  return value === 'delivered' || (DEAD_LETTER_REASONS as readonly unknown[]).includes(value);
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' && value.length <= LONGEST ? value : undefined;
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}
