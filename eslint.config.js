import js from '@eslint/js';
import tseslint from 'typescript-eslint';

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
);
