/** What is used of a response to see that its client has left: node:http's and HTTP/2's both have it. */
export interface Closable {
  readonly destroyed?: boolean;
  once(event: 'close', listener: () => void): unknown;
  removeListener(event: 'close', listener: () => void): unknown;
}

/** Runs with a signal that comes when the client of this response has left. */
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
