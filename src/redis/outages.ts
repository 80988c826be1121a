import { errorChain } from '../notification/redact.ts';
import { explainedLoss, type Connection, type RedisTrouble } from './connection.ts';
import { addressOf } from './target.ts';

/** An error of a connection: it broke, or could not be opened. */
export interface Outage {
  /** The address, without user and password. */
  readonly redis: string;
  readonly trouble: RedisTrouble;
  /** The error in the client's words. */
  readonly reason: string;
  /** The error in words for an operator. */
  readonly message: string;
  /** How often the error occurred since the last report of it. */
  readonly repeats: number;
}

export interface OutageWatch {
  /**
   * How often a trouble occurred since it was last reported; undefined if it must not be reported now (observe/log.ts). During
   * an outage it may occur many times a second.
   */
  readonly sparing: (reason: string) => number | undefined;
  /** Reports an outage. False if others report it. */
  readonly lost: (outage: Outage) => boolean;
  /** Reports that all lost connections are back. Called only if `lost` reported something. */
  readonly back: (found: { readonly redis: string; readonly awayMs: number }) => void;
}

/** Watches these connections of one program, from now on. */
export function watchOutages(connections: readonly Connection[], { sparing, lost, back }: OutageWatch): void {
  const gone = new Set<Connection>();
  let isTold = false;
  let goneAt = 0;
  for (const connection of connections) {
    const redis = addressOf(connection);
    connection.on('error', (error: Error) => {
      const reason = errorChain(error);
      const repeats = sparing(reason);
      if (repeats === undefined) return;
      void explainedLoss(connection, error).then(({ trouble, message }) => {
        isTold = lost({ redis, trouble, reason, message, repeats }) || isTold;
      });
    });
    connection.on('close', () => {
      if (gone.size === 0) goneAt = performance.now();
      gone.add(connection);
    });
    connection.on('ready', () => {
      if (!gone.delete(connection) || gone.size > 0 || !isTold) return;
      isTold = false;
      back({ redis, awayMs: Math.round(performance.now() - goneAt) });
    });
  }
}
