import type { Platform } from '../../src/domain/notification.ts';
import type { Provider, Reply } from '../../src/providers/provider.ts';
import type { SenderOptions } from '../../src/providers/sender/sender.ts';
import type { Refuse } from '../../src/sandbox/loopback/answers.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';

type Row = Omit<Reply, 'code'>;

/** A provider that runs against a loopback server. */
export interface ProviderSubject {
  readonly platform: Platform;
  /** Closed when the test ends. */
  readonly open: (sandbox: Sandbox, options?: ProviderTuning) => Promise<Provider>;
  /** The answer that brings about each row of its table, and what it comes out as. */
  readonly words: Readonly<Record<string, readonly [Refuse, Row]>>;
  /** For a word that is new, and for an answer without one. */
  readonly statuses: Readonly<Record<number, Row>>;
  /** The words of its own table; each is to be in `words`. */
  readonly table: readonly string[];
}

export type ProviderTuning = Partial<Omit<SenderOptions, 'endpoint' | 'secureContext'>> & {
  readonly endpoint?: string;
  readonly ca?: string | undefined;
};
