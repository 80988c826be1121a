import { AsyncLocalStorage } from 'node:async_hooks';
import { READ_MS } from './outlet.ts';
import type { Departure } from './outlet.ts';
import type { Reply, SendOptions } from './provider.ts';
import { transportReply } from './transport-replies.ts';

/**
 * How far one try got. Neither client tells whether a request left this machine, or lets go of one that is under way;
 * their connections do, and find the try that they work for through `currentWire`.
 */
export class Wire {
  readonly #leaveBy: number;
  readonly #onLate: () => void;
  #lookedAt = -Infinity;
  #isCut = false;
  #cancel: (() => void) | undefined;
  #mayHaveArrived: () => boolean = () => false;
  #answer: Answer | undefined;

  /**
   * @param leaveBy `performance.now()` after which nothing may leave
   * @param onLate told when something that could have left was kept back for it: there was a connection, but not in time
   */
  constructor(leaveBy: number, onLate: () => void) {
    this.#leaveBy = leaveBy;
    this.#onLate = onLate;
  }

  /** The caller waits no longer: what has not left by now must not leave. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** Whether any of the request may have reached the provider. */
  get mayHaveArrived(): boolean {
    return this.#mayHaveArrived();
  }

  get answer(): Answer | undefined {
    return this.#answer;
  }

  note(answer: Answer): void {
    this.#answer = answer;
  }

  /**
   * To be asked at the last moment before a request is written. No timer does for it: in a process that was stopped, what
   * was received meanwhile may be dealt with before the timers are.
   */
  mayLeave(): boolean {
    this.#lookedAt = performance.now();
    if (!this.#isCut && this.#lookedAt > this.#leaveBy) this.#onLate();
    return !this.#isCut;
  }

  /** Of the request that was just allowed to leave, for the outlet of its connection. */
  get departure(): Departure {
    return { lookedAt: this.#lookedAt, leaveBy: this.#leaveBy, keepBack: () => this.#onLate() };
  }

  /** The request so far was answered, and another one takes its place: nothing of that one has left. */
  begin(): void {
    this.#cancel = undefined;
    this.#mayHaveArrived = () => false;
    this.#answer = undefined;
  }

  /** Follows a request that the client has made. */
  follow(cancel: () => void, mayHaveArrived: () => boolean): void {
    this.#cancel = cancel;
    this.#mayHaveArrived = mayHaveArrived;
    if (this.#isCut) cancel();
  }

  cut(): void {
    this.#isCut = true;
    this.#cancel?.();
  }
}

/** The head of an answer, where a client hands on the rest only. */
export interface Answer {
  readonly status: number | undefined;
  readonly retryAfter: string | undefined;
}

const wires = new AsyncLocalStorage<Wire>();

/** The try that the running code works for. */
export function currentWire(): Wire | undefined {
  return wires.getStore();
}

export interface TryOptions extends SendOptions {
  /** The answer must be there by then, counted from the call and with connecting included. */
  readonly timeoutMs: number;
}

/** A timer that is later than this was held up: by a stopped process, most likely. */
const HELD_UP_MS = 250;

/** One try that always answers, and in time: what is late or no longer wanted is taken back as far as it can be. */
export function tryOnce(send: (wire: Wire) => Promise<Reply>, options: TryOptions): Promise<Reply> {
  const { timeoutMs, signal, leaveBy = Infinity } = options;
  if (signal?.aborted) return Promise.resolve(transportReply('cancelled'));
  const startedAt = performance.now();
  if (startedAt > leaveBy) return Promise.resolve(transportReply('too-late'));
  return new Promise((resolve) => {
    const timers: NodeJS.Timeout[] = [];
    const settle = (reply: Reply): void => {
      for (const timer of timers) clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      resolve(reply);
    };
    const after = (waitMs: number, act: () => void): void => void timers.push(setTimeout(act, waitMs));
    const end = (reply: Reply): void => {
      settle(reply);
      wire.cut();
    };
    const onLate = (): void => end(transportReply('too-late'));
    const onAbort = (): void => end(transportReply(wire.mayHaveArrived ? 'aborted' : 'cancelled'));
    const onTimeout = (): void =>
      end(transportReply(wire.mayHaveArrived ? 'timeout' : 'connect-timeout', `no answer in ${timeoutMs} ms`));

    const wire = new Wire(leaveBy, onLate);
    after(timeoutMs, () => {
      const wasHeldUp = performance.now() - startedAt > timeoutMs + HELD_UP_MS;
      if (wasHeldUp && wire.mayHaveArrived) after(READ_MS, onTimeout);
      else onTimeout();
    });
    if (leaveBy - startedAt < timeoutMs) {
      after(Math.ceil(leaveBy - startedAt), () => {
        if (wire.mayHaveArrived) return;
        if (performance.now() > leaveBy + HELD_UP_MS) onLate();
        else end(transportReply('not-in-time'));
      });
    }
    signal?.addEventListener('abort', onAbort, { once: true });
    wires
      .run(wire, () => send(wire))
      .then(settle, (error: unknown) => settle(transportReply('unknown', errorName(error))));
  });
}

/** The message of an unforeseen error may hold anything, so only its kind is told. */
function errorName(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}
