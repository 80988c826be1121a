import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { parseArgs } from 'node:util';

const PAGES = ['{README,CONTRIBUTING,CHANGELOG}.md', 'docs/*.md'];
/** Every page of docs/ must be reachable from here, by links from page to page. */
const INDEX = 'docs/README.md';
/** Files that name pages in comments, help texts and errors, such as `docs/limits.md`. */
const SOURCES = [
  '{src,sandbox,api,console,workers,scripts,demo,chaos,tools,bench,examples}/**/*.{ts,lua,env}',
  'docker-compose.yml',
  'Dockerfile',
];
const MENTION = /(?<![\w./-])docs\/[\w-]+\.md(?:#[\w-]+)?/g;
/** `](target)`, `]: target` and HTML's `src="target"`, `href="target"`. */
const LINKS = [/\]\(\s*<?([^)\s>]+)/g, /^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)/gm, /\b(?:src|srcset|href)="([^"]+)"/g];

interface Link {
  /** The file that has the link. */
  readonly from: string;
  /** As written: `limits.md#limits_file`. */
  readonly target: string;
  /** The file that it leads to, from the root; undefined for an address on the internet, which is not looked at. */
  readonly path: string | undefined;
  readonly anchor: string;
}

/**
 * Checks all relative links and their #anchors below `root`, also the pages that sources name, and that the index leads to
 * every page. Prints one line for each fault, and the counts. Uses no network.
 */
function checkLinks(root: string): boolean {
  const read = (file: string): string => readFileSync(join(root, file), 'utf8');
  const pages = globSync(PAGES, { cwd: root }).sort();
  const links = pages.flatMap((page) => linksOf(page, read(page)));
  const sources = globSync(SOURCES, { cwd: root, exclude: ['**/node_modules/**'] }).sort();
  const mentions = sources.flatMap((file) => mentionsOf(file, read(file)));
  const reached = reachedFrom(INDEX, links);
  const faults = [
    ...[...links, ...mentions].flatMap((link) => faultOf(link, root, read)),
    ...pages
      .filter((page) => page.startsWith('docs/') && !reached.has(page))
      .map((page) => `${page}: expected a way of links from ${INDEX} to this page, found none`),
    ...(links.length === 0 ? ['expected links to look at, found none'] : []),
  ];
  for (const fault of faults) process.stdout.write(`${fault}\n`);
  process.stdout.write(`${pages.length} pages, ${links.length + mentions.length} links, ${faults.length} faults\n`);
  return faults.length === 0;
}

function linksOf(from: string, text: string): Link[] {
  const prose = withoutFences(text).replace(/(`+)[^`]*?\1/g, 'code');
  const targets = LINKS.flatMap((pattern) => [...prose.matchAll(pattern)].map(([, target = '']) => target));
  return targets.map((target) => linkTo(from, target, dirname(from)));
}

function mentionsOf(from: string, text: string): Link[] {
  return [...text.matchAll(MENTION)].map(([target]) => linkTo(from, target, '.'));
}

function linkTo(from: string, target: string, folder: string): Link {
  const [file = '', anchor = ''] = target.split('#');
  const isElsewhere = /^[a-z][a-z0-9+.-]*:|^\/\//i.test(target);
  const path = file === '' ? from : normalize(join(folder, decodeURIComponent(file)));
  return { from, target, path: isElsewhere ? undefined : path, anchor };
}

function faultOf({ from, target, path, anchor }: Link, root: string, read: (file: string) => string): string[] {
  if (path === undefined) return [];
  if (path.startsWith('..') || !existsSync(join(root, path))) {
    return [`${from}: expected ${target} to be a file of the repository, found none`];
  }
  if (anchor === '' || !path.endsWith('.md') || anchorsOf(read(path)).has(anchor)) return [];
  return [`${from}: expected ${target} to be a heading of ${path}, found none`];
}

/** The names of a page's headings, as GitHub makes them: `## Who, and when?` → `who-and-when`; a second one ends in `-1`. */
function anchorsOf(text: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  const prose = withoutFences(text);
  for (const [, heading = ''] of prose.matchAll(/^ {0,3}#{1,6} +(.+?) *#* *$/gm)) {
    const plain = heading.replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
    const name = plain.replace(/[^\p{L}\p{M}\p{N}\p{Pc} -]/gu, '').replaceAll(' ', '-');
    let anchor = name;
    for (let count = 1; anchors.has(anchor); count++) anchor = `${name}-${count}`;
    anchors.add(anchor);
  }
  for (const [, id = ''] of prose.matchAll(/<[a-z]+ [^>]*\b(?:id|name)="([^"]+)"/g)) anchors.add(id);
  return anchors;
}

function withoutFences(text: string): string {
  return text.replace(/^ *(`{3,}|~{3,})[^\n]*\n[^]*?^ *\1[`~]* *$/gm, '');
}

function reachedFrom(start: string, links: readonly Link[]): ReadonlySet<string> {
  const reached = new Set([start]);
  // A set's loop also visits what is added meanwhile.
  for (const page of reached) {
    for (const { from, path } of links) if (from === page && path?.endsWith('.md') === true) reached.add(path);
  }
  return reached;
}

const { values } = parseArgs({ options: { root: { type: 'string', default: process.cwd() } } });
if (!checkLinks(values.root)) process.exitCode = 1;
