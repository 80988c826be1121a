/**
 * What is wrong with a provider as a whole, worst first: it refuses our credentials, refuses the app or its tokens, asks
 * everybody to slow down, or is not there.
 */
export const TROUBLES = ['auth', 'configuration', 'quota', 'outage'] as const;
export type Trouble = (typeof TROUBLES)[number];
