import type { Breakers } from '../breaker/breaker.ts';
import type { CountedApart, PlaceInLimits } from '../domain/limits.ts';
import type { WaitingLimiter } from '../limiter/limiter.ts';
import type { EndLook } from '../limiter/redis/canceller.ts';
import type { Account, Service } from '../notification/device.ts';
import type { Device, Notification } from '../notification/notification.ts';
import type { Provider, Reply } from '../providers/provider.ts';
import type { Due } from '../queue/redelay.ts';
import type { OtherWorkers } from '../queue/workers.ts';
import type { Quota } from '../quota/quota.ts';

/** What delivery needs of a limiter. */
export type DeliveryLimiter = Pick<
  WaitingLimiter,
  'admit' | 'peek' | 'refundAt' | 'release' | 'forget' | 'moveUp' | 'foreseeFirst'
>;

/** What the pipeline works with; the same for every pass. */
export interface DeliverParts {
  readonly limiter: DeliveryLimiter;
  /** The limiters of background pushes and of Live Activities, one for each kind: they take no slot of an alert. */
  readonly apart: Readonly<Record<CountedApart, DeliveryLimiter>>;
  /** The gap of the overall policy, milliseconds; 0 for none. */
  readonly overallGapMs: number;
  /** The tolerance of the overall policy, milliseconds. */
  readonly toleranceMs: number;
  /** Quotas of whole projects (by account), and of single servers, which count apart. They may change between passes. */
  readonly quotas: { get(service: Service): Pick<Quota, 'take'> | undefined };
  /** What other workers have credentials for. */
  readonly others: OtherWorkers;
  /** How long a device waits for a worker with credentials for it, while no such worker is alive. Milliseconds. */
  readonly credentialsWaitMs: number;
  /** The providers of the accounts for which this worker has credentials. They may change from one pass to the next. */
  readonly providers: { get(account: Account): Provider | undefined };
  readonly breakers: Breakers;
  /** The turns of this worker only; other workers have their own. */
  readonly turns: Turns;
  /** The move-ups of this worker only. */
  readonly moveUps: MoveUps;
  /** Notifications of high priority go before others of their recipient. */
  readonly isHighFirst: boolean;
  readonly retry: RetryPolicy;
  /** A slot further ahead than this is not reserved: the notification becomes a dead letter. Milliseconds. */
  readonly maxWaitMs: number;
  /** No slot is reserved if this many notifications of the recipient already wait for theirs. */
  readonly maxPending?: number;
  /** An alert that may have reached its device is never sent again. */
  readonly atMostOnce: boolean;
  /** Epoch milliseconds on the clock of the queue's Redis: by it jobs are due. */
  readonly now: () => number;
  /** 0 to 1. */
  readonly random: () => number;
  /** Called with each reply. The pass waits for the promise that it returns, which must not reject. */
  readonly onReply: (event: ReplyEvent) => void | Promise<void>;
  /** How the notification must end unsent; undefined if it need not. Takes no slot. Rejects if the limiter does not answer. */
  readonly endOf: (
    place: PlaceInLimits & { readonly jobId: string; readonly enqueuedAt: number },
  ) => ReturnType<EndLook>;
  /** Changes the due times of the recipient's delayed jobs: their slots have moved. */
  readonly redelay: (recipientId: string, due: readonly Due[]) => Promise<unknown>;
}

export interface ReplyEvent {
  readonly notification: Notification;
  readonly device: Device;
  /** `apns#0`: the first of `devices`, which is on APNs. */
  readonly label: string;
  readonly reply: Reply;
  readonly tookMs: number;
}

/** The waits between retries: the first one, and the longest. */
export interface Backoff {
  readonly backoffBaseMs: number;
  readonly backoffMaxMs: number;
}

/** How often, and how soon, an attempt that failed is repeated. */
export interface RetryPolicy extends Backoff {
  /** Attempts before the notification becomes a dead letter. */
  readonly attempts: number;
}

/**
 * Lets the passes of one recipient ask for their slots in the order in which this worker took their jobs, whichever pass gets a
 * stream first. The order matters because the limiter gives slots in the order of asking.
 */
export interface Turns {
  /** Call in the order of the passes. Resolves when earlier turns have ended. Call the returned function to end this turn. */
  take(recipientId: string): Promise<EndTurn> | EndTurn;
}

/** May be called more than once. */
export type EndTurn = () => void;

/**
 * Runs one move-up of a line at a time. All calls for the line during a move-up together cause one more. Otherwise a thousand
 * canceled notifications would each move everything behind them.
 */
export interface MoveUps {
  /**
   * `ended` settles with a move-up that began after this call, and rejects if the move-up failed. `allEnded` resolves when the
   * move-ups that later calls wanted meanwhile have ended too, and never rejects. Only the call that starts the first move-up
   * has `allEnded`.
   */
  run(line: string, work: () => Promise<void>): { readonly ended: Promise<unknown>; readonly allEnded?: Promise<void> };
  /** The key is `<line> <ask id>`. A pass that waits adds a function, which is called when the slot of its ask has moved. */
  readonly moved: Map<string, () => void>;
}
