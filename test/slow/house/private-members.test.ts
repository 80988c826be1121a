import { globSync } from 'node:fs';
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import ts from 'typescript';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../support/program.ts';

/** `defineCommand` puts a script on the connection under its name, which the types of ioredis cannot know. */
const SCRIPT = 'a script that defineCommand made known is called by its name';

/**
 * Where published code reaches past the types of a package. A new place fails the test, and so does one that is listed
 * and no longer there.
 */
const KNOWN: Readonly<Record<string, { readonly why: string; readonly found: readonly string[] }>> = {
  'src/redis/scripts.ts': { why: SCRIPT, found: ['redis as unknown as'] },
  'src/providers/apns/apns.ts': {
    why: "the type declarations of apn lack its Notification's headers()",
    found: ['message as unknown as'],
  },
  'workers/dead-letters.ts': {
    why: 'ioredis overloads SET with a form that TypeScript does not pick',
    found: ['connection as unknown as'],
  },
  'src/observe/total-metrics.ts': {
    why: "prom-client's type of the metrics in a registry leaves out their values",
    found: ['metrics as unknown as'],
  },
  'sandbox/fcm/server.ts': {
    why: 'Node serves HTTP/1.1 and HTTP/2 through one listener, and its types know the objects of one of them only',
    found: ['request as unknown as', 'response as unknown as'],
  },
};

test('no published code reaches into the private members of a package, but for what is listed', () => {
  const { options, fileNames } = projectOf(process.cwd());
  const own = fileNames.filter((file) => /^(src|sandbox|workers|scripts)[\\/]/.test(relative(process.cwd(), file)));
  expect(own.length).toBeGreaterThan(100);
  const found = reachesOf(process.cwd(), own, options);
  const known = Object.entries(KNOWN).map(([file, { found }]) => [file, [...found].sort()] as const);
  expect(Object.fromEntries(found)).toEqual(Object.fromEntries(known));
}, 180_000);

/** Scripts that write keys of BullMQ directly. A new version of BullMQ may lay them out in another way. */
const WRITE_BULLMQ_KEYS = [
  ...['src/dead-letters/bury.lua', 'src/dead-letters/discard.lua', 'src/dead-letters/forget.lua'],
  ...[
    'src/dead-letters/replay.lua',
    'src/dead-letters/take-out.lua',
    'src/queue/note-why.lua',
    'src/queue/save-progress.lua',
  ],
  ...[
    'src/queue/shards/marks.lua',
    'src/queue/shards/reshard-drop.lua',
    'src/queue/shards/reshard-put.lua',
    'src/queue/shards/reshard-remove.lua',
    'src/queue/shards/reshard-take.lua',
  ],
];
/** They write only keys of this project. */
const WRITE_OWN_KEYS = [
  ...[
    'src/queue/cancellation-index.lua',
    'src/queue/history.lua',
    'src/queue/shards/layout.lua',
    'src/queue/workers.lua',
  ],
];

/** Texts of errors, and fields of them, that a package does not promise to keep; and the one file that knows them. */
const TEXTS: readonly (readonly [file: string, texts: RegExp])[] = [
  ['src/queue/bullmq-internals.ts', /Missing lock|Lock mismatch|more than allowable limit/],
  [
    'src/redis/diagnosis.ts',
    /Command (?:timed out|aborted due)|Stream isn't writeable|Unknown RESP type|MaxRetriesPerRequestError|lastNodeError|previousErrors/,
  ],
];

test('the scripts of the queue that write keys of BullMQ are those that are listed', async () => {
  const scripts = globSync('src/{queue,dead-letters}/**/*.lua');
  const writes = /'(?:HSET|HDEL|DEL|EXPIRE|LPUSH|LREM|ZADD|ZREM|XADD|INCR)'/;
  const writing: string[] = [];
  for (const file of scripts) if (writes.test(await readFile(file, 'utf8'))) writing.push(file);
  expect(writing.toSorted()).toEqual([...WRITE_BULLMQ_KEYS, ...WRITE_OWN_KEYS].toSorted());
});

test('each text of a package’s errors is known to one file', async () => {
  const files = globSync('{src,workers,scripts}/**/*.ts');
  expect(files.length).toBeGreaterThan(100);
  for (const [file, texts] of TEXTS) {
    const knowing: string[] = [];
    for (const each of files) if (texts.test(await readFile(each, 'utf8'))) knowing.push(each);
    expect(knowing).toEqual([file]);
  }
});

test('each way to reach into a package is found, and what is public is let pass', async () => {
  const root = await temporaryFolder();
  await symlink(join(process.cwd(), 'node_modules'), join(root, 'node_modules'));
  await mkdir(join(root, 'src'));
  const file = join(root, 'src', 'reaches.ts');
  await writeFile(
    file,
    `import { Job, Worker } from 'bullmq';
    import type { Socket } from 'node:net';
    import { Worker as Deep } from 'bullmq/dist/esm/classes/worker.js';
    export class Mine extends Worker {
      #own = 1;
      protected own(): number { return this.#own; }
      mine(): number { return this.own(); }
      protected override getBlockTimeout(until: number): number { return super.getBlockTimeout(until); }
      override async close(): Promise<void> { await super.close(); }
      tracked(): unknown { const { lockManager } = this; return lockManager; }
    }
    export const backend = (job: Job): unknown => job['backend'];
    export const cast = (job: Job): unknown => (job as unknown as { backend: unknown }).backend;
    export const any = (job: Job): unknown => (<any>job).backend;
    export const handle = (socket: Socket & { _handle?: unknown }): unknown => [socket._handle, socket['_handle']];
    export const named = (socket: Socket & { _handle?: unknown }): unknown => { const { _handle } = socket; return _handle; };
    export const open = (job: Job, deep: Deep): unknown => [job.id, job.data as string, deep.id];`,
  );
  const { options } = projectOf(process.cwd());
  expect(Object.fromEntries(reachesOf(root, [file], options))).toEqual({
    'src/reaches.ts': [
      '._handle',
      '._handle',
      '._handle',
      'bullmq/dist/esm/classes/worker.js',
      'getBlockTimeout overrides a protected member',
      'job as any',
      'job as unknown as',
      'job.backend is protected',
      'super.getBlockTimeout is protected',
      'this.lockManager is protected',
    ],
  });
}, 180_000);

function projectOf(root: string): ts.ParsedCommandLine {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), (path) => ts.sys.readFile(path)) as {
    readonly config: unknown;
  };
  return ts.parseJsonConfigFileContent(config, ts.sys, root);
}

/** Each file with what it reaches for, sorted; those that reach for nothing are left out. */
function reachesOf(root: string, files: readonly string[], options: ts.CompilerOptions): Map<string, string[]> {
  const program = ts.createProgram(files, options);
  const reaches = new Map<string, string[]>();
  for (const file of files) {
    const source = program.getSourceFile(file);
    if (source === undefined) throw new Error(`${file} was not read`);
    const found = reachesIn(source, program.getTypeChecker()).sort();
    if (found.length > 0) reaches.set(relative(root, file).split(sep).join('/'), found);
  }
  return reaches;
}

function reachesIn(source: ts.SourceFile, checker: ts.TypeChecker): string[] {
  const found: string[] = [];

  function visit(node: ts.Node): void {
    if (ts.isImportDeclaration(node) && ts.isStringLiteral(node.moduleSpecifier)) deepImport(node.moduleSpecifier.text);
    else if (isCast(node)) cast(node);
    else if (ts.isPropertyAccessExpression(node)) member(node.expression, node.name.text, node.name);
    else if (ts.isElementAccessExpression(node) && ts.isStringLiteral(node.argumentExpression))
      member(node.expression, node.argumentExpression.text, node.argumentExpression);
    else if (ts.isBindingElement(node)) taken(node);
    else if (ts.isClassElement(node)) overriding(node);
    ts.forEachChild(node, visit);
  }

  function deepImport(name: string): void {
    if (!name.startsWith('.') && /\/(dist|lib|build|src|cjs|esm)\//.test(name)) found.push(name);
  }

  /** `x as unknown as T`, and `x as any`: past both, nothing is checked. */
  function cast(node: ts.AsExpression | ts.TypeAssertion): void {
    const { expression: inner } = node;
    if (node.type.kind === ts.SyntaxKind.AnyKeyword) found.push(`${inner.getText(source)} as any`);
    if (isCast(inner) && inner.type.kind === ts.SyntaxKind.UnknownKeyword)
      found.push(`${inner.expression.getText(source)} as unknown as`);
  }

  function member(object: ts.Expression, name: string, place: ts.Node): void {
    if (name.startsWith('_')) found.push(`.${name}`);
    else check(checker.getSymbolAtLocation(place), `${object.getText(source)}.${name} is`);
  }

  /** `const { lockManager } = this` */
  function taken(node: ts.BindingElement): void {
    if (!ts.isObjectBindingPattern(node.parent)) return;
    const name = (node.propertyName ?? node.name).getText(source);
    const object = node.parent.parent;
    const from = ts.isVariableDeclaration(object) ? (object.initializer?.getText(source) ?? '') : '';
    if (name.startsWith('_')) found.push(`.${name}`);
    else check(checker.getTypeAtLocation(node.parent).getProperty(name), `${from}.${name} is`);
  }

  function overriding(node: ts.ClassElement): void {
    const clauses = ts.isClassLike(node.parent) ? node.parent.heritageClauses : undefined;
    const base = clauses?.find(({ token }) => token === ts.SyntaxKind.ExtendsKeyword)?.types[0];
    const name = node.name?.getText(source);
    if (base === undefined || name === undefined) return;
    check(checker.getTypeAtLocation(base).getProperty(name), `${name} overrides a`, ' member');
  }

  function check(symbol: ts.Symbol | undefined, before: string, after = ''): void {
    if (!isOfPackage(symbol)) return;
    const flags = (symbol?.declarations ?? []).map((each) => ts.getCombinedModifierFlags(each));
    for (const [flag, word] of [
      [ts.ModifierFlags.Protected, 'protected'],
      [ts.ModifierFlags.Private, 'private'],
    ] as const) {
      if (flags.some((each) => (each & flag) !== 0)) found.push(`${before} ${word}${after}`);
    }
  }

  visit(source);
  return found;
}

function isCast(node: ts.Node): node is ts.AsExpression | ts.TypeAssertion {
  return ts.isAsExpression(node) || ts.isTypeAssertionExpression(node);
}

/** Whether it is declared by a package, or by Node; what the language itself has does not count. */
function isOfPackage(symbol: ts.Symbol | undefined): boolean {
  const files = (symbol?.declarations ?? []).map((each) => each.getSourceFile().fileName);
  return files.some((file) => file.includes('/node_modules/') && !file.includes('/node_modules/typescript/'));
}
