import { expect } from 'vitest';

const VOID = new Set(['meta', 'br', 'hr', 'img', 'link', 'input']);

/** Fails if an element is not closed, or closed in the wrong order, or an attribute is given twice. */
export function expectWellFormed(text: string): void {
  const open: string[] = [];
  let elements = 0;
  for (const [, closing = '', name = '', attributes = '', own = ''] of text.matchAll(
    /<(\/?)([a-zA-Z][\w-]*)((?:\s+[\w:-]+(?:="[^"<]*")?)*)\s*(\/?)>/g,
  )) {
    elements += 1;
    const names = [...attributes.matchAll(/([\w:-]+)=/g)].map(([, attribute]) => attribute);
    expect(new Set(names).size, `${name}${attributes}`).toBe(names.length);
    if (closing === '/') expect(name).toBe(open.pop());
    else if (own === '' && !VOID.has(name)) open.push(name);
  }
  expect(open).toEqual([]);
  // Each `<` begins an element that was read above, or the document type.
  const others = text.match(/<(?:!|\?)/g)?.length ?? 0;
  expect(text.match(/</g)).toHaveLength(elements + others);
}

/** Fails if a page or a picture loads something: a script, a style, a font, a picture, a link. */
export function expectSelfContained(text: string): void {
  expect(text).not.toMatch(/<(?:script|link|img|iframe|object|embed|use|image|foreignObject)\b/i);
  expect(text).not.toMatch(/<[^>]*\s(?:src|href|srcset|xlink:href)\s*=/i);
  expect(text).not.toMatch(/url\(|@import/i);
  expect(text.replaceAll('http://www.w3.org/2000/svg', '')).not.toMatch(/https?:\/\//i);
}
