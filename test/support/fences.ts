/** A fenced block of a page, and the name in the comment above it. */
export interface Fence {
  /** `run: app` or `test: enqueue`; undefined where there is no comment. */
  readonly comment: string | undefined;
  readonly language: string;
  readonly text: string;
}

/** All fenced blocks of a page that name a language, in order. */
export function fencesOf(page: string): Fence[] {
  const found = page.matchAll(/(?:<!-- ([^\n]*?) -->\n\n?)?^```([a-z]+)\n([^]*?)^```$/gm);
  return [...found].map(([, comment, language = '', text = '']) => ({ comment, language, text }));
}
