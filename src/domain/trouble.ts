/** What is wrong with a provider as a whole: it refuses our credentials, asks everybody to slow down, or is not there. */
export const TROUBLES = ['auth', 'quota', 'outage'] as const;
export type Trouble = (typeof TROUBLES)[number];
