import { pump } from './pump.ts';

/** One thing to measure: asks of one kind, to one limiter. */
export interface Case {
  readonly name: string;
  /** The commands that its client sends, as `INFO commandstats` names them; theirs include what they run inside. */
  readonly commands: readonly string[];
  /** Prepares `asks` asks, untimed, with new recipients. */
  prepare(asks: number): Promise<void>;
  /** The next ask. Rejects if the answer is not the one that the case measures. */
  ask(): Promise<void>;
}

/** The asks of one recipient: `before` asks that are not measured, then `measured` ones. */
export interface Script {
  readonly name: string;
  readonly commands: readonly string[];
  readonly before: number;
  readonly measured: number;
  /** The recipient's ask number `step`, from 0; rejects where the answer is not the expected one. */
  readonly ask: (recipientId: string, step: number) => Promise<void>;
}

/** More than the asks in flight, so that a recipient's asks arrive one after the other, some milliseconds apart. */
const LEAST_RECIPIENTS = 256;
let recipients = 0;

/** A name that no other ask of this process has used; all are of the same length. */
export function newRecipient(): string {
  recipients += 1;
  return `teacher-${String(recipients).padStart(7, '0')}`;
}

/** Turns a recipient's script into asks that go round all recipients, step by step. */
export function createCase({ name, commands, before, measured, ask }: Script): Case {
  let ids: string[] = [];
  let cursor = 0;
  const askFor = (index: number): Promise<void> => {
    const recipientId = ids[index % ids.length] as string;
    return ask(recipientId, Math.floor(index / ids.length));
  };
  return {
    name,
    commands,
    async prepare(asks) {
      const count = Math.max(LEAST_RECIPIENTS, Math.ceil(asks / measured));
      ids = Array.from({ length: count }, newRecipient);
      cursor = before * count;
      await pump(cursor, askFor);
    },
    ask() {
      const index = cursor;
      cursor += 1;
      return askFor(index);
    },
  };
}

/** Throws if a case measured another answer than it says. */
export function expectAnswer(name: string, expected: string, found: string): void {
  if (found !== expected) throw new Error(`${name}: expected each ask to be ${expected}, found one ${found}`);
}
