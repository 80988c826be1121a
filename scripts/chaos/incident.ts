/** A strike after which what was in hand may alert a second time. */
export interface Incident {
  readonly kind: 'kill' | 'stop' | 'redis';
  /** When it struck, and until when what was in hand may still have gone out; epoch milliseconds. */
  readonly at: number;
  readonly until: number;
  /** The notifications that workers had in hand. */
  readonly ids: ReadonlySet<string>;
}
