import { z } from 'zod';
import { formatFault } from '../domain/faults.ts';
import { parseRules, type Rule } from '../domain/limits.ts';

/** A variable that holds rules: `10/1m,200/1h`. */
export function rules(name: string, largest?: Rule) {
  return z.string().transform((value, context): readonly Rule[] => {
    const result = parseRules(value, name, largest);
    if (result.ok) return result.rules;
    const message = `rules as max/per, such as 10/1m,200/1h (${result.faults.map(formatFault).join('; ')})`;
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  });
}
