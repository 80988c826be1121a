import { nearest, typingMistakes } from '../domain/nearest.ts';
import type { Environment } from '../environment/values.ts';
import { environmentSchema } from './variables.ts';

/** A variable that nothing reads, and the one that was probably meant. */
export interface UnknownVariable {
  readonly name: string;
  readonly meant: string;
}

const KNOWN = Object.keys(environmentSchema.shape);
/** Other programs have variables of these families too: REDIS_URI beside REDIS_URL is no mistake. */
const SHARED = /^(REDIS|LOG|METRICS)_/;

/**
 * The variables of an environment that look like a mistyped one of pushpacer's: `LIMIT_RULE` for `LIMIT_RULES`. Only really near names:
 * most variables of an environment belong to other programs. Values are not looked at.
 */
export function unknownVariables(given: Environment): UnknownVariable[] {
  return Object.keys(given).flatMap((name) => {
    if (given[name] === undefined || KNOWN.includes(name)) return [];
    const near = KNOWN.filter((known) => isNear(name.toUpperCase(), known));
    const meant = nearest(name, near);
    if (meant === undefined || (SHARED.test(meant) && given[meant] !== undefined)) return [];
    return [{ name, meant }];
  });
}

/** `LIMIT_RULE is not known; did you mean LIMIT_RULES?` */
export function unknownText({ name, meant }: UnknownVariable): string {
  return `${name} is not known; did you mean ${meant}?`;
}

/**
 * At most one mistake, or two in a long word behind the same family (`APNS_`): of short words, such as METRICS_PATH and
 * METRICS_PORT, two may be different on purpose.
 */
function isNear(name: string, known: string): boolean {
  if (Math.abs(name.length - known.length) > 2 || name[0] !== known[0]) return false;
  const mistakes = typingMistakes(name, known);
  const [family, word] = [known.split('_', 1)[0] ?? '', known.slice(known.indexOf('_') + 1)];
  const isOfFamily = name.startsWith(`${family}_`);
  if (mistakes <= 1) return isOfFamily || name.includes('_') === known.includes('_');
  return mistakes === 2 && isOfFamily && word.length > 6;
}
