import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { chromium, type Browser, type BrowserContextOptions, type Page } from 'playwright-core';
import { onTestFinished } from 'vitest';

const run = promisify(execFile);
const PATHS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
let finding: Promise<string> | undefined;

/** The path of a Chromium on this machine. Where there is none, Debian's is installed, as root, and it says so. */
function findChromium(): Promise<string> {
  finding ??= (async () => {
    const own = process.env['CHROMIUM'] ?? PATHS.find((path) => existsSync(path));
    if (own !== undefined) return own;
    process.stderr.write(
      'No Chromium on this machine: installing the package chromium with apt-get. CHROMIUM avoids this.\n',
    );
    const options = { env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } };
    await run('apt-get', ['update', '-q'], options);
    await run('apt-get', ['install', '-q', '-y', '--no-install-recommends', 'chromium', 'fonts-dejavu-core'], options);
    return '/usr/bin/chromium';
  })();
  return finding;
}

/** A real browser. The caller closes it. */
export async function launchBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: await findChromium(), args: ['--no-sandbox'] });
}

/** What went wrong in a page, as its console says it: faults of scripts, and what the Content-Security-Policy refused. */
export interface OpenPage {
  readonly page: Page;
  readonly faults: readonly string[];
}

/** A page in a browser, which is closed after the test. */
export async function openPage(options: BrowserContextOptions = {}): Promise<OpenPage> {
  const browser = await launchBrowser();
  onTestFinished(() => browser.close());
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options });
  const faults: string[] = [];
  page.on('pageerror', ({ message }) => faults.push(message));
  page.on('console', (line) => {
    if (line.type() === 'error') faults.push(line.text());
  });
  return { page, faults };
}
