/** A fault after which the notifications that workers had may alert a second time. */
export interface Incident {
  readonly kind: 'kill' | 'stop' | 'redis';
  /** When the fault began, and until when these notifications may still have been sent; epoch milliseconds. */
  readonly at: number;
  readonly until: number;
  /** The notifications that workers had at that time. */
  readonly ids: ReadonlySet<string>;
}
