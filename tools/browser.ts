import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { chromium, type Browser } from 'playwright-core';

const run = promisify(execFile);
const PATHS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const INSTALL =
  'test -x /usr/bin/chromium || { export DEBIAN_FRONTEND=noninteractive; apt-get update -q && ' +
  'apt-get install -q -y --no-install-recommends chromium fonts-dejavu-core; }';
let finding: Promise<string> | undefined;

/** The path of a Chromium on this machine. Where there is none, Debian's is installed, as root, and it says so. */
function findChromium(): Promise<string> {
  finding ??= (async () => {
    const own = process.env['CHROMIUM'] ?? PATHS.find((path) => existsSync(path));
    if (own !== undefined) return own;
    process.stderr.write(
      'No Chromium on this machine: installing the package chromium with apt-get. CHROMIUM avoids this.\n',
    );
    // Several test files may come here at once, and apt-get runs once at a time.
    await run('flock', [join(tmpdir(), 'pushpacer-chromium.lock'), 'sh', '-c', INSTALL]);
    return '/usr/bin/chromium';
  })();
  return finding;
}

/** A real browser. The caller closes it. */
export async function launchBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: await findChromium(), args: ['--no-sandbox'] });
}
