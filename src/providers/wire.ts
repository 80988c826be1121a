import { AsyncLocalStorage } from 'node:async_hooks';
import type { Reply } from './provider.ts';
import { transportReply } from './transport-replies.ts';

/**
 * How far one try got. Neither client tells whether a request left this machine, or lets go of one that is under way;
 * their connections do, and find the try that they work for through `currentWire`.
 */
export class Wire {
  #isCut = false;
  #cancel: (() => void) | undefined;
  #mayHaveArrived: () => boolean = () => false;

  /** The caller waits no longer: what has not left by now must not leave. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** Whether any of the request may have reached the provider. */
  get mayHaveArrived(): boolean {
    return this.#mayHaveArrived();
  }

  /** Follows a request that the client has made; a second one (a renewed token) takes the first one's place. */
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

const wires = new AsyncLocalStorage<Wire>();

/** The try that the running code works for. */
export function currentWire(): Wire | undefined {
  return wires.getStore();
}

export interface TryOptions {
  /** The answer must be there by then, counted from the call and with connecting included. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** One try that always answers, and in time: what is late or no longer wanted is taken back as far as it can be. */
export function tryOnce(send: (wire: Wire) => Promise<Reply>, { timeoutMs, signal }: TryOptions): Promise<Reply> {
  if (signal?.aborted) return Promise.resolve(transportReply('cancelled'));
  const wire = new Wire();
  return new Promise((resolve) => {
    const settle = (reply: Reply): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      resolve(reply);
    };
    const onTimeout = (): void => {
      settle(transportReply(wire.mayHaveArrived ? 'timeout' : 'connect-timeout', `no answer in ${timeoutMs} ms`));
      wire.cut();
    };
    const onAbort = (): void => {
      settle(transportReply(wire.mayHaveArrived ? 'aborted' : 'cancelled'));
      wire.cut();
    };
    const timer = setTimeout(onTimeout, timeoutMs);
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
