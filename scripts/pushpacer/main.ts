import { readFileSync } from 'node:fs';
import { nearest } from '../../src/domain/faults.ts';
import { EXIT } from '../support/command.ts';
import { helpItem } from '../support/help.ts';
import { endWithReader, red } from '../support/terminal.ts';
import { COMMANDS, loadCommand } from './commands.ts';

const usage = () => `Usage: pushpacer <command> [options]

${Object.entries(COMMANDS)
  .map(([name, [, does]]) => helpItem(name, does, 12))
  .join('\n')}

${helpItem('pushpacer <command> --help', "a command's options", 26)}
${helpItem('pushpacer --version', "this program's version", 26)}
`;

/** `pushpacer enqueue --file F`: the commands of `npm run`, under one name. */
export async function main([name = '--help', ...argv]: readonly string[]): Promise<void> {
  endWithReader();
  if (name === '--help' || name === '-h') {
    process.stdout.write(usage());
    return;
  }
  if (name === '--version' || name === '-V') {
    process.stdout.write(`${version()}\n`);
    return;
  }
  const command = await loadCommand(name);
  if (command === undefined) {
    const meant = nearest(name, Object.keys(COMMANDS));
    const advice = meant === undefined ? '' : `; did you mean ${meant}?`;
    process.stderr.write(`${red('error:')} no command ${JSON.stringify(name)}${advice}\n\n${usage()}`);
    process.exitCode = EXIT.usage;
    return;
  }
  await command(argv);
}

/** From package.json, which is one folder higher if this file runs from `dist`. */
function version(): string {
  const here = import.meta.url.endsWith('.ts') ? '../../package.json' : '../../../package.json';
  return (JSON.parse(readFileSync(new URL(here, import.meta.url), 'utf8')) as { version: string }).version;
}
