/** The depth is bounded because an error may be its own cause, through others. */
const MAX_DEPTH = 10;

interface ErrorLike {
  readonly name?: unknown;
  readonly message?: unknown;
  readonly code?: unknown;
  readonly cause?: unknown;
  readonly errors?: unknown;
}

/**
 * The messages of an error and of its causes, outermost first: `write failed < socket hang up < read ECONNRESET`. An
 * `AggregateError` shows all its errors: `(connect ECONNREFUSED ::1:443; connect ETIMEDOUT 17.188.143.34:443)`. A message
 * that an outer one already contains is left out. Nothing is redacted here: the caller knows the notification, and redacts.
 */
export function errorChain(error: unknown): string {
  return linksOf(error, MAX_DEPTH)
    .filter((words, index, all) => !all.slice(0, index).some((outer) => outer.includes(words)))
    .join(' < ');
}

function linksOf(error: unknown, depth: number): string[] {
  if (depth === 0) return [];
  if (typeof error !== 'object' || error === null) return [textOf(error)].filter((text) => text !== '');
  const like: ErrorLike = error;
  const several = Array.isArray(like.errors) ? like.errors.map((each) => linksOf(each, depth - 1).join(' < ')) : [];
  const inner = several.length > 0 ? [`(${[...new Set(several)].join('; ')})`] : causeOf(like, depth);
  const own = wordsOf(like);
  return own === '' ? inner : [own, ...inner];
}

function causeOf(like: ErrorLike, depth: number): string[] {
  // VError's `cause` is a method.
  const cause = typeof like.cause === 'function' ? (like.cause as () => unknown).call(like) : like.cause;
  return cause === undefined || cause === null ? [] : linksOf(cause, depth - 1);
}

/** The message, with the code if the message does not contain it. The name if there is neither. */
function wordsOf({ name, message, code }: ErrorLike): string {
  const [words, short] = [textOf(message).trim(), textOf(code)];
  if (words !== '') return short === '' || words.includes(short) ? words : `${words} (${short})`;
  return short === '' ? textOf(name) : short;
}

function textOf(value: unknown): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}
