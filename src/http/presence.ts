/** The part of a response that shows that its client has disconnected; node:http's and HTTP/2's both have it. */
export interface Closable {
  readonly destroyed?: boolean;
  once(event: 'close', listener: () => void): unknown;
  removeListener(event: 'close', listener: () => void): unknown;
}

/** Calls `run` with a signal that aborts when the client of this response disconnects. */
export async function whilePresent<T>(response: Closable, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const presence = new AbortController();
  const leave = (): void => {
    presence.abort();
  };
  if (response.destroyed === true) leave();
  response.once('close', leave);
  try {
    return await run(presence.signal);
  } finally {
    response.removeListener('close', leave);
  }
}
