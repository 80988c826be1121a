import { resolve } from 'node:path';
import { loadApiTokensFile } from '../src/config/config.ts';
import { UsageError, createCommand, integer, printJson, runCommand, CommandError } from '../src/terminal/command.ts';
import { columnsOf, instant, table } from '../src/terminal/text.ts';
import { addToken, NAME_FORMAT, isName, readTokens, revokeToken, SCOPES, type Scope } from './tokens.ts';

interface Flags {
  readonly scope: readonly Scope[];
  readonly maxWaiting?: number;
  readonly json?: true;
}

const HELP = `
The tokens are in the file that API_TOKENS_FILE names, by default api-tokens.json here, with a hash of each. A server that runs takes a
change within three seconds. A secret is shown once, when it is made, and stored nowhere: who loses it gets a new one.`;

/** `pushpacer token add|list|revoke`: the tokens of the HTTP API. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('token', 'Adds, lists or revokes the bearer tokens of the HTTP API.').addHelpText(
    'after',
    HELP,
  );
  command.addCommand(
    createCommand('add', 'Adds a token and prints its secret.')
      .argument('<name>', 'who has it, such as school-app', nameArgument)
      .option('--scope <scopes>', `what it allows, comma-separated: ${SCOPES.join(', ')}`, scopesFlag, ['send'])
      .option(
        '--max-waiting <count>',
        'it adds no notification while more than this wait',
        integer('--max-waiting', 1, 100_000_000),
      )
      .option('--json', 'one JSON object as the last line: name, scopes, secret')
      .action(async (name: string, { scope: scopes, maxWaiting, json }: Flags) => {
        const secret = await addToken(fileOf(), { name, scopes: [...scopes], maxWaiting });
        if (json) printJson({ name, scopes, secret });
        else process.stdout.write(`${secret}\n`);
      }),
  );
  command.addCommand(
    createCommand('list', 'Lists the tokens, without their secrets.')
      .option('--json', 'one JSON object as the last line')
      .action(async ({ json }: Flags) => {
        const tokens = await readTokens(fileOf());
        if (json) {
          printJson({ tokens: tokens.map((token) => ({ ...token, sha256: undefined })) });
          return;
        }
        const rows = tokens.map(({ name, scopes, maxWaiting = '', createdAt }) => {
          return [name, scopes.join(', '), String(maxWaiting), instant(Date.parse(createdAt))];
        });
        const lines = table([['name', 'scopes', 'max waiting', 'added'], ...rows], { columns: columnsOf() });
        process.stdout.write(tokens.length === 0 ? `no tokens in ${resolve(fileOf())}\n` : `${lines.join('\n')}\n`);
      }),
  );
  command.addCommand(
    createCommand('revoke', 'Removes a token: requests with its secret are refused.')
      .argument('<name>', 'its name', nameArgument)
      .option('--json', 'one JSON object as the last line: name, revoked')
      .action(async (name: string, { json }: Flags) => {
        const file = fileOf();
        if (!(await revokeToken(file, name)))
          throw new CommandError(`no token in ${resolve(file)} has the name ${name}`);
        if (json) printJson({ name, revoked: true });
        else process.stdout.write(`revoked ${name}\n`);
      }),
  );
  await runCommand(command, argv);
}

function fileOf(): string {
  return loadApiTokensFile(process.env);
}

function nameArgument(text: string): string {
  if (isName(text)) return text;
  throw new UsageError(`NAME: expected ${NAME_FORMAT}, found ${JSON.stringify(text)}`);
}

function scopesFlag(text: string): Scope[] {
  const given = [...new Set(text.split(',').map((part) => part.trim()))];
  const scopes = SCOPES.filter((scope) => given.includes(scope));
  if (scopes.length > 0 && scopes.length === given.length) return scopes;
  throw new UsageError(
    `--scope: expected some of ${SCOPES.join(', ')}, comma-separated, found ${JSON.stringify(text)}`,
  );
}

if (import.meta.main) await main(process.argv.slice(2));
