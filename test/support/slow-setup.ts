import { installPackages } from '../../tools/install.ts';

/** What slow tests import, and what they start. test/support/global-setup.ts runs for them too. */
export default async function setup(): Promise<void> {
  for (const folder of ['tools', 'test/slow'] as const) {
    await installPackages(folder, (line) => process.stderr.write(`${line}\n`));
  }
}
