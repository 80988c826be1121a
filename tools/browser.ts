import { existsSync } from 'node:fs';
import { chromium, type Browser } from 'playwright-core';
import { debianProgram } from './debian.ts';

const PATHS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
let finding: Promise<string> | undefined;

/** The path of a Chromium on this machine. Where there is none, Debian's is installed, as root, and it says so. */
function findChromium(): Promise<string> {
  const own = process.env['CHROMIUM'] ?? PATHS.find((path) => existsSync(path));
  finding ??=
    own === undefined
      ? debianProgram('chromium', 'chromium fonts-dejavu-core', ' CHROMIUM avoids this.')
      : Promise.resolve(own);
  return finding;
}

/** A real browser. The caller closes it. */
export async function launchBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: await findChromium(), args: ['--no-sandbox'] });
}
