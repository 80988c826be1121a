import type { Platform } from '../../src/domain/notification.ts';
import type { Provider, Push, Reply } from '../../src/providers/provider.ts';
import type { SenderOptions } from '../../src/providers/sender/sender.ts';
import type { Refuse } from '../../sandbox/loopback/answers.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { makePush } from '../support/push.ts';

type Row = Omit<Reply, 'code'>;

/** A push to the platform's loopback server, or to another server. */
export function pushTo(sandbox: Sandbox, { platform, endpoint, ...fields }: PushTo): Push {
  return makePush({ platform, server: endpoint ?? sandbox[platform].url, ...fields });
}

interface PushTo {
  readonly platform: Platform;
  readonly endpoint?: string | undefined;
  readonly data?: Record<string, string>;
}

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
  /** What a send that the server took comes out as. */
  readonly accepted: Reply;
  /** Whether a success has to have the provider's own body. */
  readonly readsBodies: boolean;
  /** Whether `connect` opens connections; otherwise the first `reserve` or `send` does. */
  readonly connectsAhead: boolean;
}

export type ProviderTuning = Partial<Omit<SenderOptions, 'endpoint' | 'secureContext'>> & {
  readonly endpoint?: string;
  readonly ca?: string | undefined;
};
