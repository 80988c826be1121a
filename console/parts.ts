import type { Hono } from 'hono';
import type { Backend } from '../api/backend.ts';
import type { Logger } from '../src/observe/log.ts';
import type { Sampler } from './samples.ts';
import type { ConsoleEnv } from './session.ts';

export interface ConsoleParts extends Backend {
  readonly sampler: Pick<Sampler, 'samples'>;
  /** Whether titles, texts and data of notifications may be shown. Tokens never are. */
  readonly showTexts: boolean;
  readonly log: Logger;
}

export type ConsoleApp = Hono<ConsoleEnv>;

/**
 * Adds a page's routes. When a request comes to them, it is checked already: the user may see the console, and a request that
 * changes something is an operator's, and comes from a page of the console itself.
 */
export type Page = (app: ConsoleApp, parts: ConsoleParts) => void;
