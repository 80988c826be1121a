/** What `doctor` found out about one thing. */
export interface Finding {
  /** What was looked at, in one or two words: `eviction`, `apns`. */
  readonly check: string;
  /** `fault`: do not start a worker like this. `warning`: it works, but somebody should know. */
  readonly result: 'ok' | 'warning' | 'fault';
  /** What was found. */
  readonly text: string;
  /** What to do. Absent where nothing is to be done. */
  readonly advice?: string;
}

/** Findings of one check, named once. */
export function createFindings(check: string) {
  return {
    ok: (text: string): Finding => ({ check, result: 'ok', text }),
    warning: (text: string, advice: string): Finding => ({ check, result: 'warning', text, advice }),
    fault: (text: string, advice: string): Finding => ({ check, result: 'fault', text, advice }),
  };
}
