import { appendFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

const PAGES = ['/metrics', '/readyz', '/healthz'];
const EVERY_MS = 3_000;
const ANSWER_MS = 2_000;

/** Appends the workers' pages to a file every few seconds, until the signal aborts. A frozen worker's page is left out. */
export async function samplePages(urls: () => string[], file: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const pages = urls().flatMap((url) => PAGES.map((page) => `${new URL(url).origin}${page}`));
    const texts = await Promise.all(pages.map(read));
    await appendFile(file, texts.join(''));
    await sleep(EVERY_MS, undefined, { signal }).catch(() => undefined);
  }
}

async function read(url: string): Promise<string> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(ANSWER_MS), headers: { connection: 'close' } });
    return `${url} ${answer.status}\n${await answer.text()}\n`;
  } catch {
    return '';
  }
}
