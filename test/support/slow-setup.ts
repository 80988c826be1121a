import { installAll } from '../../tools/install.ts';

/** What slow tests import, and what they start. test/support/global-setup.ts runs for them too. */
export default async function setup(): Promise<void> {
  await installAll((line) => process.stderr.write(`${line}\n`));
}
