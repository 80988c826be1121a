/** One thing that is wrong with an input: where, what was expected, what was found (never a secret's value). */
export interface Fault {
  /** `devices[0].token`, `LIMIT_RULES[1]`; empty for the input as a whole. */
  readonly path: string;
  readonly expected: string;
  readonly found: string;
}

/** `devices[0].platform: expected "apns" or "fcm", found "sms"` */
export function formatFault({ path, expected, found }: Fault): string {
  const where = path === '' ? '' : `${path}: `;
  return `${where}expected ${expected}, found ${found}`;
}

/** Bad input that a person can correct. Holds every fault, and its message lists them all. */
export class InputError extends Error {
  override readonly name = 'InputError';
  readonly faults: readonly Fault[];

  constructor(what: string, faults: readonly Fault[]) {
    const lines = faults.map(formatFault);
    super(lines.length === 1 ? `${what}: ${lines.join()}` : [`${what}:`, ...lines].join('\n  '));
    this.faults = faults;
  }
}
