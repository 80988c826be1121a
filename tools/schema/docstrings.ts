import ts from 'typescript';
import { z } from 'zod';

/** Gives the fields of these schemas, by the names of their interfaces, the interfaces' docstrings as descriptions. */
export function describeFields(text: string, schemas: Readonly<Record<string, z.ZodObject>>): void {
  const file = ts.createSourceFile('types.ts', text, ts.ScriptTarget.Latest);
  for (const [name, schema] of Object.entries(schemas)) {
    const found = file.statements.filter(ts.isInterfaceDeclaration).find((each) => each.name.text === name);
    if (found === undefined) throw new Error(`expected an interface ${name}, found none`);
    describe(file, found, schema, name);
  }
}

function describe(
  file: ts.SourceFile,
  { members }: ts.InterfaceDeclaration | ts.TypeLiteralNode,
  schema: z.ZodObject,
  path: string,
): void {
  const byName = new Map(members.map((member) => [member.name?.getText(file), member]));
  for (const [name, field] of Object.entries<z.ZodType>(schema.shape)) {
    const member = byName.get(name);
    const description = member && docstringOf(member, file);
    if (member === undefined || !description) throw new Error(`${path}.${name}: expected a docstring, found none`);
    const { description: other = description } = field.meta() ?? {};
    if (other !== description)
      throw new Error(`${path}.${name}: expected a schema of its own, found that of another field`);
    z.globalRegistry.add(field, { ...field.meta(), description });
    const type = ts.isPropertySignature(member) ? member.type : undefined;
    if (type && ts.isTypeLiteralNode(type)) describe(file, type, field as z.ZodObject, `${path}.${name}`);
  }
}

/** Its text in one line. */
function docstringOf(member: ts.TypeElement, file: ts.SourceFile): string {
  const before = member.getFullText(file).slice(0, member.getStart(file) - member.getFullStart());
  return before
    .replace(/^\s*\/\*\*|\*\/\s*$/g, '')
    .replaceAll(/\s*\n\s*\* ?|\s+/g, ' ')
    .trim();
}
