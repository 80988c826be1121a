import js from '@eslint/js';
import tseslint from 'typescript-eslint';

/** What code that is published may not do to a package: a new version of it may change all that its types keep to themselves. */
const PAST_TYPES = {
  selector: 'TSAsExpression > TSAsExpression > TSUnknownKeyword, TSAsExpression > TSTypeAssertion > TSUnknownKeyword',
  message: 'A cast by way of unknown reaches past the types of a package: name its file and why in eslint.config.js.',
};
const PRIVATE = [
  {
    selector: 'MemberExpression[property.name=/^_/], ObjectPattern > Property[key.name=/^_/]',
    message: 'A name that begins with _ is private.',
  },
  {
    selector: 'MemberExpression[computed=true][property.value=/^_/]',
    message: 'A name that begins with _ is private.',
  },
  {
    selector:
      "ClassDeclaration[superClass.name!='LoopbackServer'] > ClassBody > MethodDefinition[override=true][accessibility=protected]",
    message: 'A protected member of a package is not ours to override.',
  },
];

export default tseslint.config(
  { ignores: ['dist/', 'node_modules/', 'coverage/', 'docs/api/'] },
  js.configs.recommended,
  {
    // The script of the console's pages. A list, so that no package is needed for it.
    files: ['console/assets/*.js'],
    languageOptions: {
      sourceType: 'script',
      globals: Object.fromEntries(
        [
          ...['document', 'location', 'fetch', 'setTimeout', 'setInterval', 'addEventListener'],
          ...['getSelection', 'DOMParser', 'Element'],
        ].map((name) => [name, 'readonly']),
      ),
    },
  },
  {
    files: ['**/*.ts'],
    extends: [...tseslint.configs.strictTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      // Numbers in a message are what a reader wants to see.
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      // An interface may take an async function where it needs a promise of nothing in particular.
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/consistent-type-imports': 'error',
      // NestJS has its modules as classes without members.
      '@typescript-eslint/no-extraneous-class': ['error', { allowWithDecorator: true }],
      'max-lines': ['error', { max: 400, skipBlankLines: true, skipComments: true }],
    },
  },
  {
    files: ['{src,sandbox,workers,scripts}/**/*.ts'],
    rules: {
      '@typescript-eslint/dot-notation': 'error', // job['backend'] is how private members are reached
      'no-restricted-imports': ['error', { patterns: [{ regex: '^[^.].*/(dist|lib|build|src|cjs|esm)/' }] }],
      'no-restricted-syntax': ['error', PAST_TYPES, ...PRIVATE],
    },
  },
  {
    files: [
      'src/redis/scripts.ts', // a script that defineCommand made known is called by its name
      'src/providers/apns/apns.ts', // the type declarations of apn lack its Notification's headers()
      'workers/dead-letters.ts', // ioredis overloads SET with a form that TypeScript does not pick
      'src/observe/total-metrics.ts', // prom-client's type of the metrics in a registry leaves out their values
      'sandbox/fcm/server.ts', // one listener serves HTTP/1.1 and HTTP/2, and Node's types know the objects of one of them
    ],
    rules: { 'no-restricted-syntax': ['error', ...PRIVATE] },
  },
);
