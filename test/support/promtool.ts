import { execFile, spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const INSTALL =
  'command -v promtool || { export DEBIAN_FRONTEND=noninteractive; apt-get update -q && ' +
  'apt-get install -q -y --no-install-recommends prometheus; }';
let finding: Promise<void> | undefined;

/** Makes sure that there is a promtool. Where there is none, Debian's is installed, as root, and it says so. */
function havePromtool(): Promise<void> {
  finding ??= (async () => {
    if (await run('promtool', ['--version']).then(Boolean, () => false)) return;
    process.stderr.write('No promtool on this machine: installing the package prometheus with apt-get.\n');
    // Several test files may come here at once, and apt-get runs once at a time.
    await run('flock', [join(tmpdir(), 'pushpacer-prometheus.lock'), 'sh', '-c', INSTALL]);
  })();
  return finding;
}

/** What `promtool check metrics` says of a page; an empty text if it finds no fault. */
export async function checkMetrics(page: string): Promise<string> {
  await havePromtool();
  const promtool = spawn('promtool', ['check', 'metrics'], { stdio: ['pipe', 'pipe', 'pipe'] });
  let said = '';
  for (const output of [promtool.stdout, promtool.stderr])
    output.on('data', (data: Buffer) => (said += data.toString()));
  const code = new Promise<number | null>((resolve, reject) => promtool.once('error', reject).once('close', resolve));
  promtool.stdin.end(page);
  const exit = await code;
  return said === '' && exit !== 0 ? `promtool ended with ${exit ?? 'a signal'}` : said;
}
