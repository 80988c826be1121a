/** The limiter had no answer in time: neither a yes nor a no. Ask again later under the same id, which costs no second slot. */
export class LimiterUnavailableError extends Error {
  override readonly name = 'LimiterUnavailableError';
}

/** What `answer` resolves to, or LimiterUnavailableError when it rejects or takes longer than `timeoutMs`. */
export async function answerWithin<T>(answer: Promise<T>, timeoutMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const tooLate = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new LimiterUnavailableError(`the limiter's Redis did not answer within ${timeoutMs} ms`));
    }, timeoutMs);
  });
  const failed = answer.catch((cause: unknown) => {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new LimiterUnavailableError(`the limiter's Redis did not answer: ${why}`, { cause });
  });
  try {
    return await Promise.race([failed, tooLate]);
  } finally {
    clearTimeout(timer);
  }
}
