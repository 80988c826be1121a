import { z } from 'zod';
import { InputError, zodFaults, type Fault } from '../../domain/faults.ts';
import { PLATFORMS, type Platform } from '../../domain/notification.ts';
import { parseDuration } from '../../domain/time.ts';
import type { ScriptedAnswer } from './scripted.ts';
import { statusesOf, WORDS } from './words.ts';

/** More than any test needs; keeps a request from being compared with an endless list. */
const MAX_ANSWERS = 10_000;
const MAX_DELAY_MS = 3_600_000;

const delay = z.string().refine((text) => (parseDuration(text) ?? Infinity) <= MAX_DELAY_MS, {
  error: 'a duration such as 250ms, 3s or 1m, at most 1h',
});
const retryAfter = z.string().refine((text) => isWholeSeconds(parseDuration(text)), {
  error: 'a duration in whole seconds, such as 30s or 2m',
});

/** `reason` is checked together with the platform. */
type Readable = Omit<ScriptedAnswer, 'reason'> & { readonly reason?: string | undefined };

const answerSchema: z.ZodType<Readable> = z
  .strictObject({
    platform: z.enum(PLATFORMS).optional(),
    token: z.string().min(1).max(4_096).optional(),
    reason: z.string().optional(),
    status: z.int().optional(),
    answer: z.enum(['accept', 'hang', 'reset', 'reset-stream', 'refused-stream']).optional(),
    times: z.int().min(1).max(1_000_000).optional(),
    share: z
      .number()
      .refine((share) => share > 0 && share <= 1, { error: 'a share above 0 and at most 1' })
      .optional(),
    delay: delay.optional(),
    retryAfter: retryAfter.optional(),
    field: z.string().min(1).max(256).optional(),
    alerted: z.boolean().optional(),
  })
  .superRefine((answer, context) => {
    for (const [path, message] of contradictions(answer)) {
      context.addIssue({ code: 'custom', path: path === '' ? [] : [path], message });
    }
  });
const scriptSchema = z.strictObject({ answers: z.array(answerSchema).max(MAX_ANSWERS) });

/** What does not fit together: the field, and what was expected of it. */
function contradictions(answer: Readable): (readonly [field: string, expected: string])[] {
  const { reason, status, field, retryAfter: retry, alerted, delay: wait } = answer;
  const isRefusal = reason !== undefined || status !== undefined;
  if (!isRefusal && answer.answer === undefined) return [['', 'a reason, a status or an answer']];
  const kinds: (readonly [string, string, boolean])[] = [
    ['answer', 'none beside a reason or a status', isRefusal && answer.answer !== undefined],
    ['retryAfter', 'none without a reason or a status', !isRefusal && retry !== undefined],
    ['delay', 'none for "hang", which never ends', answer.answer === 'hang' && wait !== undefined],
    ['alerted', 'none for "accept", which always alerts', answer.answer === 'accept' && alerted !== undefined],
    ['field', 'none without the reason INVALID_ARGUMENT', field !== undefined && reason !== 'INVALID_ARGUMENT'],
  ];
  return [
    ...(isRefusal ? wordFaults(answer) : []),
    ...kinds.flatMap(([name, expected, isBroken]) => (isBroken ? [[name, expected] as const] : [])),
  ];
}

/** Faults of a refusal's reason and status, for the platforms that it is for. */
function wordFaults({ platform, reason, status }: Readable): (readonly [field: string, expected: string])[] {
  const platforms = platform === undefined ? PLATFORMS : [platform];
  if (reason === undefined) {
    const wrong = platforms.find((one) => status !== undefined && !statusesOf(one).includes(status));
    return wrong === undefined
      ? []
      : [['status', `a status that ${WORDS[wrong].name} answers: ${statusesOf(wrong).join(', ')}`]];
  }
  const owner = platformOfReason(reason);
  if (owner === undefined || !platforms.includes(owner)) return [['reason', reasonsOf(platforms)]];
  const ownStatus = WORDS[owner].reasons[reason];
  return status === undefined || status === ownStatus
    ? []
    : [['status', `${ownStatus ?? ''}, the status of ${reason}`]];
}

function reasonsOf(platforms: readonly Platform[]): string {
  return platforms
    .map((one) => `a reason of ${WORDS[one].name} (${Object.keys(WORDS[one].reasons).join(', ')})`)
    .join(' or ');
}

/** The words of the providers are written differently, so that each belongs to one of them. */
export function platformOfReason(reason: string): Platform | undefined {
  return PLATFORMS.find((platform) => Object.hasOwn(WORDS[platform].reasons, reason));
}

function isWholeSeconds(ms: number | undefined): boolean {
  return ms !== undefined && ms % 1_000 === 0;
}

const isToken = (path: readonly PropertyKey[]): boolean => path.at(-1) === 'token';

/**
 * Checks a script: `{ "answers": [ … ] }`.
 *
 * @throws InputError that names every fault by its path, `answers[0].status`. No fault shows a token.
 */
export function parseScript(script: unknown, what = 'the script'): readonly ScriptedAnswer[] {
  const result = scriptSchema.safeParse(script);
  if (!result.success) throw new InputError(what, zodFaults(result.error, script, isToken));
  return result.data.answers as readonly ScriptedAnswer[]; // `reason` was checked against the words
}

/** The same for a text, which may be no JSON. */
export function parseScriptText(text: string, what?: string): readonly ScriptedAnswer[] {
  const value = parseJson(text);
  if (value === undefined) throw new InputError(what ?? 'the script', [NOT_JSON]);
  return parseScript(value.json, what);
}

const NOT_JSON: Fault = { path: '', expected: 'JSON: { "answers": [ … ] }', found: 'text that is not JSON' };

function parseJson(text: string): { readonly json: unknown } | undefined {
  try {
    return { json: JSON.parse(text) as unknown };
  } catch {
    return undefined;
  }
}
