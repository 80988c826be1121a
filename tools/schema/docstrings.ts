import ts from 'typescript';

/** Interface → field → description. */
export type Descriptions = Readonly<Record<string, Readonly<Record<string, string | undefined>>>>;

/** Columns of a line of a docstring, without its indentation and ` * `. */
const WIDTH = 115;

/** TypeScript with the docstrings of these interfaces' fields replaced by their descriptions. Throws where one is missing. */
export function withDocstrings(text: string, descriptions: Descriptions): string {
  const file = ts.createSourceFile('types.ts', text, ts.ScriptTarget.Latest);
  const edits = Object.entries(descriptions).flatMap(([name, fields]) => {
    const found = file.statements.filter(ts.isInterfaceDeclaration).find((each) => each.name.text === name);
    if (found === undefined) throw new Error(`expected an interface ${name}, found none`);
    return found.members.map((member) => {
      const field = member.name?.getText(file) ?? '';
      const description = fields[field];
      if (description === undefined) throw new Error(`${name}.${field}: expected a description, found none`);
      return { from: member.getFullStart(), to: member.getStart(file), docstring: docstringOf(description) };
    });
  });
  const lastFirst = edits.toSorted((a, b) => b.from - a.from);
  return lastFirst.reduce((rest, { from, to, docstring }) => rest.slice(0, from) + docstring + rest.slice(to), text);
}

/** With the line break before it and the indentation after it. */
function docstringOf(description: string): string {
  const lines = wrapped(description);
  const docstring =
    lines.length === 1 ? `/** ${lines.join('')} */` : ['/**', ...lines.map((line) => ` * ${line}`), ' */'].join('\n');
  return `\n${docstring}\n`.replaceAll('\n', '\n  ');
}

/** Code in backticks stays in one line. */
function wrapped(text: string): string[] {
  const lines = [''];
  for (const word of text.match(/(?:`[^`]*`|[^\s`])+/g) ?? []) {
    const line = `${lines.at(-1) ?? ''} ${word}`.trimStart();
    if (line.length <= WIDTH) lines[lines.length - 1] = line;
    else lines.push(word);
  }
  return lines;
}
