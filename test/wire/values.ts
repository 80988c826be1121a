import fc from 'fast-check';
import { anyText, cut } from './texts.ts';

/** Values of single fields, and how fields are there or not. */

export const count = fc.oneof(fc.constantFrom(0, 1, 99, 2_147_483_647), fc.nat());
export const share = fc.oneof(
  fc.constantFrom(0, 1, 0.5, -0, 5e-324, 1 - Number.EPSILON),
  fc.double({ min: 0, max: 1, noNaN: true }),
);
export const label = fc.stringMatching(/^[A-Za-z0-9_.~%-]{1,50}$/);
export const color = fc.stringMatching(/^#[0-9a-fA-F]{6}$/);
export const url = fc.stringMatching(/^[a-z0-9/._~-]{0,60}$/).map((path) => `https://example.com/${path}`);
export const duration = fc.constantFrom('0s', '3s', '3.5s', '0.000000001s', '2419200s');
export const number = fc.oneof(
  fc.constantFrom(-0, 0, 1e21, 1e-7, Number.MAX_SAFE_INTEGER, -1.5, Number.MAX_VALUE),
  fc.integer(),
);
export const name = fc.oneof(
  fc.constantFrom('threadId', 'form', 'a.b', 'From', 'agcm', 'title', 'body', ''),
  anyText.map((text) => cut(text, 30)),
);

export const { json } = fc.letrec<{ json: unknown; leaf: unknown }>((tie) => ({
  leaf: fc.oneof(
    { weight: 80, arbitrary: anyText.map((text) => cut(text, 60)) },
    { weight: 40, arbitrary: number },
    { weight: 20, arbitrary: fc.boolean() },
    { weight: 1, arbitrary: fc.constant(null) },
  ),
  json: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    { weight: 6, arbitrary: tie('leaf') },
    { weight: 1, arbitrary: fc.array(tie('json'), { maxLength: 3 }) },
    { weight: 1, arbitrary: fc.dictionary(name, tie('json'), { maxKeys: 3 }) },
  ),
}));

/** Any of the fields, at random. */
export const some = <T>(fields: { [Name in keyof T]: fc.Arbitrary<T[Name]> }) =>
  fc.record(fields, { requiredKeys: [] });
/** `null` removes it from what is patched. */
export const orNull = <T>(value: fc.Arbitrary<T>) => fc.option(value, { freq: 6 });
export const seldom = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 5 });
