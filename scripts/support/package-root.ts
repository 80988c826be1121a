import { existsSync } from 'node:fs';

/** The folder of package.json, from the sources and from `dist` alike: its URL, with a slash at the end. */
export function packageRoot(): URL {
  let folder = new URL('./', import.meta.url);
  while (!existsSync(new URL('package.json', folder))) {
    const parent = new URL('../', folder);
    if (parent.href === folder.href) throw new Error('no package.json above this file');
    folder = parent;
  }
  return folder;
}
