/**
 * Lets one pass begin in each turn of the event loop, in the order in which they came. What a turn sends goes out at its
 * end: a turn in which a burst of jobs was parsed and encoded would hold up the alert that was sent at its beginning, for
 * hundreds of milliseconds in a process that has just started or is starved.
 */
export function createTurnstile(): () => Promise<void> {
  const waiting: (() => void)[] = [];
  const admit = (): void => {
    waiting.shift()?.();
    if (waiting.length > 0) setImmediate(admit);
  };
  return () =>
    new Promise((resolve) => {
      waiting.push(resolve);
      if (waiting.length === 1) setImmediate(admit);
    });
}
