import type { Platform } from '../../domain/notification.ts';
import { parseDuration } from '../../domain/time.ts';
import type { Answer } from '../loopback/answers.ts';
import { parseScript, platformOfReason } from './schema.ts';
import type { ScriptedAnswer } from './scripted.ts';
import { refusalOf } from './words.ts';

/** An entry of the script, and how many requests it still answers. */
interface Rule {
  readonly scripted: ScriptedAnswer;
  readonly platform: Platform | undefined;
  left: number;
}

/** The script of both providers: entries in order, the first that fits a request and is not used up decides its answer. */
export class AnswerRules {
  readonly #random: () => number;
  readonly #now: () => number;
  #rules: readonly Rule[] = [];

  /** `random` gives numbers from 0 up to 1, one for each request that an entry with a share fits. */
  constructor(random: () => number, now: () => number) {
    this.#random = random;
    this.#now = now;
  }

  /**
   * Replaces the whole script; on a fault nothing is changed.
   *
   * @throws InputError that names every fault by its path: `answers[0].status`.
   */
  set(answers: readonly ScriptedAnswer[]): void {
    this.#rules = parseScript({ answers }).map((scripted) => ({
      scripted,
      platform: scripted.platform ?? (scripted.reason === undefined ? undefined : platformOfReason(scripted.reason)),
      left: scripted.times ?? Infinity,
    }));
  }

  /** What is left of the script: entries that are used up are gone, and `times` is what is still to come. */
  get left(): readonly ScriptedAnswer[] {
    return this.#rules
      .filter(({ left }) => left > 0)
      .map(({ scripted, left }) => (left === Infinity ? scripted : { ...scripted, times: left }));
  }

  /** The answer to a request, which uses it up; undefined if no entry fits. `sameToken` compares as the platform does. */
  next(platform: Platform, sameToken: (token: string) => boolean): Answer | undefined {
    const rule = this.#rules.find((one) => this.#fits(one, platform, sameToken));
    if (!rule) return undefined;
    rule.left -= 1;
    return answerOf(rule.scripted, platform, this.#now());
  }

  #fits({ scripted, left, platform: own }: Rule, platform: Platform, sameToken: (token: string) => boolean): boolean {
    const { token, share } = scripted;
    if (left === 0 || (own !== undefined && own !== platform)) return false;
    if (token !== undefined && !sameToken(token)) return false;
    return share === undefined || this.#random() < share;
  }
}

/** The loopback server's answer for an entry of the script. `nowMs`: since when APNs calls a token gone. */
function answerOf(scripted: ScriptedAnswer, platform: Platform, nowMs: number): Answer {
  const { answer, delay, retryAfter, alerted } = scripted;
  const more = {
    ...(delay === undefined ? {} : { delayMs: parseDuration(delay) ?? 0 }),
    ...(alerted === undefined ? {} : { accepted: alerted }),
  };
  switch (answer) {
    case undefined: {
      const header = retryAfter === undefined ? {} : { retryAfter: String((parseDuration(retryAfter) ?? 0) / 1_000) };
      return { ...refusalOf(platform, scripted, nowMs), ...header, ...more };
    }
    case 'reset':
      return { kind: 'reset', ...more };
    case 'reset-stream':
      return { kind: 'reset', scope: 'stream', ...more };
    case 'refused-stream':
      return { kind: 'reset', scope: 'refused-stream', ...more };
    case 'accept':
    case 'hang':
      return { kind: answer, ...more };
  }
}
