import { expect, it } from 'vitest';
import { countBreakers, parseLog } from '../../../chaos/logs.ts';
import type { BreakerChange } from '../../../src/breaker/breaker.ts';
import { createLog } from '../../../src/observe/log.ts';
import { createBreakerListener } from '../../../workers/breakers.ts';

/** What a worker's log says of a breaker that opens and then closes. */
function linesOf(open: NonNullable<BreakerChange['open']>): string {
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => void lines.push(line) });
  const listener = createBreakerListener({
    metrics: { breakerOpened: () => undefined, breakerTrial: () => undefined },
    log,
  });
  listener({ service: open.service, open, before: undefined });
  listener({ service: open.service, open: undefined, before: open });
  return lines.join('');
}

const open = { service: 'fcm', trouble: 'auth', code: 'UNAUTHENTICATED', since: 0, until: 1 } as const;
const logs = (text: string) => new Map([['worker-0.log', parseLog(text)]]);

it('tells the notification of each pass that ended, when, and the ids that hold the process’s locks', () => {
  const time = '2026-03-01T07:30:00.123Z';
  const pass = { level: 'info', time, jobId: 'n7#r1', id: 'n7', outcome: 'delivered', msg: 'delivered' };
  const other = { level: 'warn', time, jobId: 'n8', msg: 'Redis did not take the result of this pass' };
  const ready = { level: 'info', time, workerIds: ['w1'], msg: 'ready' };
  const lines = [JSON.stringify(pass), '(node:1) Warning: no JSON', JSON.stringify(other), JSON.stringify(ready)];
  const at = Date.parse(time);
  expect(parseLog(`${lines.join('\n')}\n{"half`)).toEqual([{ at, id: 'n7' }, { at }, { at, workerIds: ['w1'] }]);
});

it("counts the breakers that opened, in the words of the worker's log", () => {
  const counted = countBreakers(logs(linesOf(open)));
  expect(counted).toEqual({ breakersOpened: { auth: 1 }, breakersByOneDevice: [] });
});

it('tells a breaker that an answer about one device opened', () => {
  const { breakersByOneDevice } = countBreakers(logs(linesOf({ ...open, code: 'THIRD_PARTY_AUTH_ERROR' })));
  expect(breakersByOneDevice).toEqual([expect.stringContaining('fcm, THIRD_PARTY_AUTH_ERROR, in worker-0.log')]);
});
