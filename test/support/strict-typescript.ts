import { join } from 'node:path';
import ts from 'typescript';

/** The compiler options of a user with strict TypeScript; `pushpacer` is read from the sources. */
const STRICT: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2024,
  lib: ['lib.es2024.d.ts'],
  module: ts.ModuleKind.NodeNext,
  types: ['node'],
  strict: true,
  noUncheckedIndexedAccess: true,
  noEmit: true,
  allowImportingTsExtensions: true,
  paths: { pushpacer: [join(process.cwd(), 'src/index.ts')] },
};

/** The faults that TypeScript finds in these texts of a user, with and without `exactOptionalPropertyTypes`; of each, its first line. */
export function strictFaults(...codes: readonly string[]): string[] {
  return strictFaultsIn(process.cwd(), ...codes);
}

/** The same for texts in this folder: they may import the packages that are installed for it. */
export function strictFaultsIn(folder: string, ...codes: readonly string[]): string[] {
  const texts = new Map(codes.map((code, index) => [join(folder, `snippet-of-a-user-${index}.mts`), code]));
  return [true, false].flatMap((exactOptionalPropertyTypes) => {
    const options = { ...STRICT, exactOptionalPropertyTypes };
    const disk = ts.createCompilerHost(options);
    const host: ts.CompilerHost = {
      ...disk,
      fileExists: (path) => texts.has(path) || disk.fileExists(path),
      getSourceFile: (path, version) => {
        const text = texts.get(path);
        return text === undefined
          ? known(path, () => disk.getSourceFile(path, version))
          : ts.createSourceFile(path, text, version);
      },
    };
    const program = ts.createProgram([...texts.keys()], options, host);
    const found = [...texts.keys()].flatMap((file) => {
      const source = program.getSourceFile(file);
      return [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)];
    });
    return [...program.getOptionsDiagnostics(), ...found].map(({ code, messageText }) => {
      const [line = ''] = ts.flattenDiagnosticMessageText(messageText, '\n').split('\n');
      return `TS${code} (exactOptionalPropertyTypes ${String(exactOptionalPropertyTypes)}): ${line}`;
    });
  });
}

const files = new Map<string, ts.SourceFile | undefined>();

/** A file is read and parsed once for all programs. */
function known(path: string, read: () => ts.SourceFile | undefined): ts.SourceFile | undefined {
  if (!files.has(path)) files.set(path, read());
  return files.get(path);
}
