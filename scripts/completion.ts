import { Argument } from 'commander';
import { bashScript } from './completion/bash.ts';
import { fishScript } from './completion/fish.ts';
import { readPlaces } from './completion/places.ts';
import { zshScript } from './completion/zsh.ts';
import { createCommand, runCommand } from './support/command.ts';

const SCRIPTS = { bash: bashScript, zsh: zshScript, fish: fishScript };
type Shell = keyof typeof SCRIPTS;

const HELP = `
bash, in ~/.bashrc:
  source <(pushpacer completion bash)
zsh, in ~/.zshrc, after compinit:
  source <(pushpacer completion zsh)
fish, once:
  pushpacer completion fish > ~/.config/fish/completions/pushpacer.fish

It completes the word pushpacer, so that must be on the PATH (npm install --global pushpacer). After an update of pushpacer a new
shell has the new flags in bash and zsh; in fish, write the file again.`;

/** `pushpacer completion bash`: prints a script that completes commands, flags, and the values that are known. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('completion', 'Prints a script that completes commands and flags, for a shell.');
  command
    .addArgument(new Argument('<shell>', 'whose script').choices(Object.keys(SCRIPTS)))
    .addHelpText('after', HELP)
    .action(async (shell: Shell) => {
      process.stdout.write(SCRIPTS[shell](await readPlaces(command)));
    });
  await runCommand(command, argv);
}

if (import.meta.main) await main(process.argv.slice(2));
