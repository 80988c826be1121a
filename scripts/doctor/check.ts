/** What `doctor` found out about one thing. */
export interface Finding {
  /** What was checked, in one or two words: `eviction`, `apns`. */
  readonly check: string;
  /** `fault`: do not start a worker like this. `warning`: a worker runs, but an operator should know this. */
  readonly result: 'ok' | 'warning' | 'fault';
  readonly text: string;
  /** What to do. Absent if nothing is to be done. */
  readonly advice?: string;
}

/** Makes findings of one check, whose name is given once. */
export function createFindings(check: string) {
  return {
    ok: (text: string): Finding => ({ check, result: 'ok', text }),
    warning: (text: string, advice: string): Finding => ({ check, result: 'warning', text, advice }),
    fault: (text: string, advice: string): Finding => ({ check, result: 'fault', text, advice }),
  };
}
