import { unknownText, unknownVariables } from '../../src/config/variables.ts';
import { printable } from '../../src/domain/faults.ts';
import type { Environment } from '../../src/environment/values.ts';
import { warn } from './command.ts';

/** The environment that a command reads its configuration from. Says which of its variables look mistyped. */
export function readEnvironment(): Environment {
  for (const unknown of unknownVariables(process.env)) warn(printable(unknownText(unknown)));
  return process.env;
}
