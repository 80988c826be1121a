import { printable } from '../domain/faults.ts';
import type { StoryPass, StorySend } from '../notification/story.ts';
import { span, timeNear } from '../terminal/text.ts';

/** Says the passes of a story in words, for the command and the console. */

/** `a worker took it 3s late; put back until 09:14:03Z for gap, with 2 before it`. @param before the pass before it */
export function passText(now: number, pass: StoryPass, before: StoryPass | undefined): string {
  const { wokenLateMs = 0 } = pass;
  const parts = [
    wokenLateMs < LATE_MS ? '' : `a worker took it ${span(wokenLateMs)} late`,
    lostText(pass, before),
    resultText(now, pass),
    sentText(now, pass),
  ];
  return parts.filter((part) => part !== '').join('; ');
}

/** A smaller delay is usual, so it is not mentioned. */
const LATE_MS = 50;

function lostText({ stalls = 0 }: StoryPass, before: StoryPass | undefined): string {
  return stalls > (before?.stalls ?? 0) ? 'its worker before this one died, or stood still' : '';
}

/** `put back until 09:14:03Z for gap, with 2 before it` */
function resultText(now: number, pass: StoryPass): string {
  const { result, rule, ruleUntil, before = 0, until, code, by, reason, message, deadAt } = pass;
  const till = until === undefined ? '' : ` until ${timeNear(now, until)}`;
  const end = ruleUntil === undefined ? '' : `, which ends at ${timeNear(now, ruleUntil)}`;
  const line = before === 0 ? '' : `, with ${before} before it`;
  const cause = rule === undefined ? '' : ` for ${printable(rule)}${end}${line}`;
  const after = code === undefined ? '' : ` after ${printable(code)}`;
  const shown = pass.maybeShown === true ? ', may have been shown before' : '';
  switch (result) {
    case 'requeued':
      return `put back${till}${cause}`;
    case 'deferred':
      return `put back${till}, nothing was sent${code === undefined ? '' : `: ${printable(code)}`}`;
    case 'retried':
      return `tried again${till.replace(' until', ' at')}${after}`;
    case 'dead-letter':
      return `dead letter: ${printable(reason ?? '')}, ${printable(message ?? '')}`;
    case 'replayed':
      return `replayed; it was a dead letter${deadAt === undefined ? '' : ` since ${timeNear(now, deadAt)}`}: ${printable(reason ?? '')}`;
    case 'superseded':
    case 'merged':
      return `${result}, by ${printable(by ?? '?')}${shown}`;
    case 'yielded':
      return 'left to another worker: its lock was lost';
    default:
      return `${printable(result)}${cause}${pass.silenced === true ? ', without a sound' : ''}${shown}`;
  }
}

/** `in its slot of 09:14:03Z, 4ms after it` */
function sentText(now: number, { slot, lateMs = 0 }: StoryPass): string {
  if (slot === undefined) return '';
  return `in its slot of ${timeNear(now, slot)}${lateMs >= 1 ? `, ${span(lateMs)} after it` : ''}`;
}

/** `apns#0 http-200 in 48ms, fcm#1 timeout in 30s` */
export function sendsText({ sends = [] }: StoryPass): string {
  return sends.map(sendText).join(', ');
}

function sendText({ device, code, tookMs }: StorySend): string {
  return `${printable(device)} ${printable(code)} in ${span(tookMs)}`;
}
