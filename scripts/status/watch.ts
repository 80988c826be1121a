import { parseDuration, sleepUntil } from '../../src/domain/time.ts';
import { createRates } from '../../src/operations/rates.ts';
import {
  explained,
  PRODUCER_TIMEOUT_MS,
  RedisAwayError,
  whenReady,
  type Connection,
} from '../../src/redis/connection.ts';
import { printJson, UsageError, warn } from '../../src/terminal/command.ts';
import { columnsOf, cut, dim, redOut, span } from '../../src/terminal/text.ts';
import { describeScreen, describeStatus, type Status } from './describe.ts';

/** `status --watch`: looks again and again. On a terminal each look replaces the one before; otherwise it is written below that. */

export const DEFAULT_EVERY = '2s';
/** The shortest and the longest interval. The shortest is not shorter, because a look takes Redis up to 60 ms. */
const [LEAST_EVERY, MOST_EVERY] = ['500ms', '1h'];

/** `2s` → 2000 */
export function parseEvery(text: string): number {
  const ms = parseDuration(text);
  const [least = 0, most = 0] = [LEAST_EVERY, MOST_EVERY].map(parseDuration);
  if (ms !== undefined && ms >= least && ms <= most) return ms;
  const expected = `a duration such as ${DEFAULT_EVERY}, from ${LEAST_EVERY} to ${MOST_EVERY}`;
  throw new UsageError(`--watch: expected ${expected}, found ${JSON.stringify(text)}`);
}

interface WatchOptions {
  /** Rejects if Redis does not answer. */
  readonly look: () => Promise<Status>;
  readonly connection: Connection;
  readonly everyMs: number;
  readonly json: boolean;
}

/** Where the looks are shown. */
interface View {
  show(status: Status): void;
  /** Shows that Redis does not answer, and that it is tried again. */
  away(error: RedisAwayError): void;
  close(): void;
}

/** Looks until the user or a signal ends it. Rejects if the first look fails; later looks may fail while Redis does not answer. */
export async function watchStatus({ look, connection, everyMs, json }: WatchOptions): Promise<void> {
  const rates = createRates();
  const ending = new AbortController();
  const end = (): void => ending.abort();
  const { signal } = ending;
  const ended = new Promise<undefined>((resolve) => signal.addEventListener('abort', () => resolve(undefined)));
  const once = async (): Promise<Status> => {
    await whenReady(connection, PRODUCER_TIMEOUT_MS);
    const { result, where } = await look();
    const found = rates(result);
    return { result: found === undefined ? result : { ...result, rates: found }, where };
  };
  for (const name of SIGNALS) process.on(name, end);
  let view: View | undefined;
  try {
    while (!signal.aborted) {
      const beganAt = performance.now();
      try {
        const status = await Promise.race([once(), ended]);
        if (status === undefined) break;
        view ??= isScreen() && !json ? openScreen(end) : createLines(json); // not before the first look, which may fail
        view.show(status);
      } catch (error) {
        const known = explained(connection, error);
        if (view === undefined || !(known instanceof RedisAwayError)) throw error;
        view.away(known);
      }
      await sleepUntil(beganAt + everyMs, signal);
    }
  } finally {
    view?.close();
    for (const name of SIGNALS) process.off(name, end);
  }
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** Writes each look below the one before: a block of lines, or one JSON object. Other messages go to standard error. */
function createLines(json: boolean): View {
  let isAway = false;
  let isFirst = true;
  return {
    show(status) {
      if (isAway) process.stderr.write('Redis answers again\n');
      isAway = false;
      if (json) printJson(status.result);
      else process.stdout.write(`${isFirst ? '' : '\n'}${describeStatus(status, undefined).join('\n')}\n`);
      isFirst = false;
    },
    away({ message }) {
      if (!isAway) warn(`${message}; it is tried again`);
      isAway = true;
    },
    close: () => undefined,
  };
}

function isScreen(): boolean {
  return columnsOf() !== undefined && process.env['TERM'] !== 'dumb';
}

// Switches to the separate screen that editors use too: what was shown before comes back at the end.
const ENTER = '\x1b[?1049h\x1b[?25l';
const LEAVE = '\x1b[?25h\x1b[?1049l';
const HOME = '\x1b[H';
const ERASE_LINE = '\x1b[K';
const ERASE_BELOW = '\x1b[J';
/** A terminal that knows these codes shows everything between them at once. */
const [HOLD, RELEASE] = ['\x1b[?2026h', '\x1b[?2026l'];
const DEFAULT_ROWS = 24;
const HINT = 'q ends it';
/** In this mode of the terminal Ctrl-C and Ctrl-D are keys, and send no signal. */
const ENDING_KEYS = ['q', 'Q', '\x03', '\x04'];

/** Draws each look over the one before, cut to the size of the terminal. `end` is called when the user presses q or Ctrl-C. */
function openScreen(end: () => void): View {
  const { stdin, stdout } = process;
  let last: { readonly status: Status; readonly at: number } | undefined;
  let trouble: string | undefined;

  function draw(): void {
    if (last === undefined) return;
    const columns = (columnsOf() ?? 0) - 1; // in the last column some terminals begin a new line
    const before = `what follows is ${span(performance.now() - last.at)} old; it is tried again`;
    const top = trouble === undefined ? [] : [redOut(cut(trouble, columns)), cut(before, columns), ''];
    const lines = [...top, ...describeScreen(last.status, columns, trouble === undefined)];
    const rows = Math.max(1, (stdout.rows || DEFAULT_ROWS) - 1); // the last row is for the hint
    const cutOff = lines.length - rows;
    const hint = cutOff > 0 ? `${cutOff} more lines: make the window higher; ${HINT}` : HINT;
    const shown = [...lines.slice(0, rows), ...Array<string>(Math.max(0, -cutOff)).fill('')];
    const text = [...shown, dim(cut(hint, columns))].join(`${ERASE_LINE}\r\n`);
    stdout.write(`${HOLD}${HOME}${text}${ERASE_LINE}${ERASE_BELOW}${RELEASE}`);
  }

  const onKey = (keys: Buffer): void => {
    const typed = keys.toString('latin1');
    if (ENDING_KEYS.some((key) => typed.includes(key))) end();
  };
  const leave = (): void => {
    stdout.write(LEAVE);
    if (stdin.isTTY) stdin.setRawMode(false);
  };
  process.once('exit', leave); // also if an unexpected error ends the process
  stdout.write(ENTER);
  stdout.on('resize', draw);
  if (stdin.isTTY) stdin.setRawMode(true).on('data', onKey).resume();

  return {
    show(status) {
      last = { status, at: performance.now() };
      trouble = undefined;
      draw();
    },
    away({ message }) {
      trouble = message;
      draw();
    },
    close() {
      process.off('exit', leave);
      stdout.off('resize', draw);
      stdin.off('data', onKey).pause();
      leave();
    },
  };
}
