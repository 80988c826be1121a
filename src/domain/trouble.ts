/**
 * What is wrong with a provider as a whole, worst first:
 * `auth`: it refuses the credentials; `configuration`: it refuses the app, or all of the app's tokens;
 * `quota`: it asks all workers to slow down; `outage`: it cannot be reached, or only answers with errors.
 */
export const TROUBLES = ['auth', 'configuration', 'quota', 'outage'] as const;
export type Trouble = (typeof TROUBLES)[number];
