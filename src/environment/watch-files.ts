import { stat } from 'node:fs/promises';

export interface FileWatch {
  /** Looks at these files from now on, and calls `onChange` soon, since they may have changed after they were read. */
  use(paths: readonly string[]): void;
  stop(): void;
}

/**
 * Calls `onChange` when one of the files has changed and then stayed as it is for `everyMs` milliseconds, so that none is read
 * while it is being written. It looks at the files again and again: `fs.watch` tells nothing of a symbolic link that points
 * elsewhere by now (Kubernetes changes mounted secrets so), nor of files on some network file systems.
 */
export function watchFiles(onChange: () => void, everyMs = 2_000): FileWatch {
  let watched: readonly string[] = [];
  let handled = '';
  let seen = '';
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;

  async function look(): Promise<void> {
    const now = (await Promise.all(watched.map(stampOf))).join('\n');
    if (isStopped) return;
    const isNew = now !== handled && now === seen;
    seen = now;
    if (isNew) {
      handled = now;
      onChange();
    }
    timer = setTimeout(() => void look(), everyMs).unref();
  }

  timer = setTimeout(() => void look(), everyMs).unref();
  return {
    use(paths) {
      watched = [...new Set(paths)];
    },
    stop() {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}

/** Is another one after each change of the file, also if another file takes its place. */
async function stampOf(path: string): Promise<string> {
  try {
    const { mtimeNs, size, ino, dev } = await stat(path, { bigint: true });
    return [path, mtimeNs, size, ino, dev].join(' ');
  } catch (error) {
    return `${path} ${(error as NodeJS.ErrnoException).code}`;
  }
}
