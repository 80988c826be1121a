import type { Breakers } from '../breaker/breaker.ts';
import type { Account } from '../domain/account.ts';
import type { CountedApart } from '../domain/counted-as.ts';
import type { Device, Notification } from '../domain/notification.ts';
import type { WaitingLimiter } from '../limiter/waiting.ts';
import type { Quota } from '../quota/quota.ts';
import type { Provider, Reply } from '../providers/provider.ts';
import type { Due } from '../queue/redelay.ts';
import type { RetryPolicy } from './backoff.ts';
import type { Turns } from './turns.ts';

/** What delivery needs of a limiter. */
export type DeliveryLimiter = Pick<WaitingLimiter, 'admit' | 'refund' | 'cancel' | 'moveUp'>;

/** What the pipeline works with; the same for every pass. */
export interface DeliverParts {
  readonly limiter: DeliveryLimiter;
  /** Of what shows nothing loud: it takes no slot of an alert, and is counted here instead. */
  readonly apart: Readonly<Record<CountedApart, DeliveryLimiter>>;
  /** The gap of the policy that holds overall, milliseconds; 0 for none. */
  readonly overallGapMs: number;
  /** Its tolerance, milliseconds. */
  readonly toleranceMs: number;
  /** The quotas of whole projects, for the accounts that have one. They may change from one pass to the next. */
  readonly quotas: { get(account: Account): Pick<Quota, 'take'> | undefined };
  /** For the accounts that have credentials. They may change from one pass to the next. */
  readonly providers: { get(account: Account): Provider | undefined };
  readonly breakers: Breakers;
  /** Of this worker; other workers have their own. */
  readonly turns: Turns;
  readonly retry: RetryPolicy;
  /** A slot further ahead than this is not reserved: the notification becomes a dead letter. Milliseconds. */
  readonly maxWaitMs: number;
  /** No slot is reserved where so many notifications of the recipient already wait for theirs. */
  readonly maxPending?: number;
  /** What may have alerted is never sent again. */
  readonly atMostOnce: boolean;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** 0 to 1. */
  readonly random: () => number;
  /** Called with each reply. The pass does not end before what this answers; it must not reject. */
  readonly onReply: (event: ReplyEvent) => void | Promise<void>;
  /** Whether the notification was canceled; asks the limiter for nothing. Rejects where the limiter does not answer. */
  readonly isCanceled: (pass: { readonly notification: Notification; readonly jobId: string }) => Promise<boolean>;
  /** Changes the due times of the recipient's delayed jobs: their slots have moved. */
  readonly redelay: (recipientId: string, due: readonly Due[]) => Promise<unknown>;
}

/** One reply of a provider. */
export interface ReplyEvent {
  readonly notification: Notification;
  readonly device: Device;
  /** `apns#0`: the first of `devices`, which is on APNs. */
  readonly label: string;
  readonly reply: Reply;
  readonly tookMs: number;
}
