import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

/** Where a test is not about credentials. */
export const NONE = { ALLOW_NO_CREDENTIALS: 'true' };

/** The folder of a test file, removed after its tests. */
export const dir = mkdtempSync(join(tmpdir(), 'pushpacer-config-'));
afterAll(() => {
  rmSync(dir, { recursive: true });
});

/** Writes a file there, as JSON unless it is a text, and gives its path. */
export function file(name: string, content: unknown): string {
  const path = join(dir, name);
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}

/** The lines of the error that loading throws, without that folder. */
export function faultLines(loading: () => unknown): string[] {
  try {
    loading();
    return [];
  } catch (error) {
    const lines = (error as Error).message.replace(/^bad environment:\s*/, '').split('\n');
    return lines.map((line) => line.trim().replaceAll(`${dir}/`, ''));
  }
}
