/** How many asks are on their way at once, over one connection. */
export const IN_FLIGHT = 128;

/** Calls `ask` with 0 to `count` - 1, in this order, with IN_FLIGHT of them unanswered at any time. */
export async function pump(count: number, ask: (index: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) {
      const index = next;
      next += 1;
      await ask(index);
    }
  };
  await Promise.all(Array.from({ length: Math.min(IN_FLIGHT, count) }, lane));
}
