import { userInfo } from 'node:os';
import { describe, expect, it } from 'vitest';
import { openApiDocument } from '../../api/openapi.ts';
import { main as cancel } from '../../scripts/cancel.ts';
import { main as recipient } from '../../scripts/recipient.ts';
import { formatFault, InputError } from '../../src/domain/faults.ts';
import { operationOf, OPERATIONS } from '../../src/operations/catalogue.ts';
import { ask, type Asked } from '../../src/operations/operation.ts';
import { previewOperation, runOperation } from '../../src/operations/run.ts';
import { openApi } from '../support/api.ts';
import { jsonOf, outputOf, runMain } from '../support/command.ts';
import { openConsole, type PageAnswer } from '../support/console.ts';
import { documentOf } from '../support/openapi.ts';
import { queueEnv } from '../support/redis.ts';
import { HOUR, openLine } from './line.ts';

// What an operation does is held by operations.test.ts, and what it says by catalogue.test.ts. Here the terminal, the HTTP API
// and the console each go through the whole catalogue, and must take, show and write down what the operation itself does.

/** What a recipient may be called, to an address, to HTML and to a shell. */
const ID = `учитель "<b>a/b?c=d#e%2F&f</b>"`;
const ADDRESS = `recipients/${encodeURIComponent(ID)}`;
const LIMITS = { LIMIT_RULES: '10/1h', LIMIT_MIN_GAP: '10m' };
const POLICY = { rules: [{ max: 10, perMs: HOUR }], minGapMs: 600_000 };
const UNTIL = Math.ceil(Date.now() / 1_000) * 1_000 + 3 * HOUR;
const TEXT = `call <b>"first"</b> & ask`;

interface Case {
  readonly name: string;
  /** As the HTTP API gets them. */
  readonly fields: Readonly<Record<string, string | readonly string[]>>;
  /** The same for `recipient`, without the recipient. */
  readonly args: readonly string[];
}

/** Each is possible after the one before it. */
const CASES: readonly Case[] = [
  {
    name: 'block',
    fields: { until: new Date(UNTIL).toISOString(), reason: TEXT },
    args: ['block', '--until', String(UNTIL), '--reason', TEXT],
  },
  { name: 'unblock', fields: {}, args: ['unblock'] },
  {
    name: 'limit',
    fields: { rules: '5/1h,9/1d', minGap: '5m', until: String(UNTIL) },
    args: ['limit', '--rules', '5/1h,9/1d', '--min-gap', '5m', '--until', String(UNTIL)],
  },
  { name: 'unlimit', fields: {}, args: ['limit', '--clear'] },
  {
    name: 'quiet',
    fields: { timezone: 'Europe/Paris', from: '21:00', until: '07:00', days: ['mon', 'tue'] },
    args: ['quiet', '--timezone', 'Europe/Paris', '--from', '21:00', '--until', '07:00', '--days', 'mon-tue'],
  },
  { name: 'unquiet', fields: {}, args: ['unquiet'] },
  { name: 'note', fields: { text: TEXT }, args: ['note', TEXT] },
  { name: 'unnote', fields: {}, args: ['note', '--clear'] },
  { name: 'cancel', fields: { key: 'trip' }, args: ['cancel', '--key', 'trip'] },
  { name: 'reset', fields: {}, args: ['reset'] },
];

/** What a face said. It leaves out what it does not show. */
interface Said {
  readonly would?: string;
  /** How many would move, or be canceled. */
  readonly foreseen?: number;
  readonly text?: string;
  readonly fields?: Readonly<Record<string, unknown>>;
  /** How many have moved, or were canceled. */
  readonly count?: number;
  readonly waiting?: number;
}

interface Face {
  /** The operator, as the audit has it. */
  readonly who: string;
  readonly preview?: (operated: Case) => Promise<Said>;
  readonly run: (operated: Case) => Promise<Said>;
  /** What the face says of fields that are not usable. */
  readonly refuse: (operated: Case) => Promise<string>;
}

const asked = ({ name, fields }: Case): Asked => {
  const operation = operationOf(name);
  if (operation === undefined) throw new TypeError(`no operation ${name}`);
  return ask(operation, ID, fields);
};

/** One was sent to the recipient, three wait, and two of these have a cancellation key in common. */
async function open() {
  const line = await openLine(POLICY);
  const all = [{ id: 'a' }, { id: 'b' }, { id: 'c', cancellationKey: 'trip' }, { id: 'd', cancellationKey: 'trip' }];
  await line.wait('alert', ...all.map((each) => ({ ...each, recipientId: ID, sendAfter: Date.now() + 9 * HOUR })));
  return line;
}

/** The operations themselves, without a face. */
function itself({ operating }: Awaited<ReturnType<typeof open>>) {
  return async (operated: Case) => {
    const { would, preview } = await previewOperation(asked(operated), operating);
    const done = await runOperation(asked(operated), operating, 'nobody');
    const foreseen = 'cancels' in preview ? preview.cancels : preview.moves;
    const { text, fields, count, reserved } = done;
    return { would, foreseen, text, fields: jsonForm(fields), count, waiting: reserved.length };
  };
}

const jsonForm = (value: object) => JSON.parse(JSON.stringify(value)) as Record<string, unknown>;
const answersOf = ({ name }: Case, all: Readonly<Record<string, unknown>>) =>
  Object.fromEntries((operationOf(name)?.answers ?? []).flatMap((each) => (each in all ? [[each, all[each]]] : [])));

const { faultsOf } = documentOf(openApiDocument());

const FACES: Readonly<Record<string, (prefix: string) => Promise<Face>>> = {
  async 'the HTTP API'(prefix) {
    const api = await openApi({ QUEUE_PREFIX: prefix, ...LIMITS }, { olga: { scopes: ['operate'] } });
    const operate = async ({ name, fields }: Case, query = '') => {
      const options = { secret: api.secrets.olga, body: fields };
      const answer = await api.call('POST', `/v1/${ADDRESS}/${name}${query}`, options);
      const type = answer.headers.get('content-type') ?? '';
      expect(faultsOf('post', `/v1/recipients/{id}/${name}`, answer.status, type, answer.body)).toEqual([]);
      return answer;
    };
    return {
      who: 'olga',
      async preview(operated) {
        const { would, cancels, moves } = (await operate(operated, '?preview=true')).body;
        return { would: String(would), foreseen: Number(cancels ?? moves) };
      },
      async run(operated) {
        const { did, moved, canceled, waiting, recipientId, ...own } = (await operate(operated)).body;
        expect(recipientId).toBe(ID);
        const fields = answersOf(operated, { ...own, canceled });
        return { text: String(did), fields, count: Number(canceled ?? moved), waiting: Number(waiting) };
      },
      async refuse(operated) {
        const answers = [await operate(operated, '?preview=true'), await operate(operated)];
        const texts = answers.map(({ status, body }) => {
          expect([status, body['code']]).toEqual([422, 'invalid']);
          return (body['faults'] as { path: string; expected: string; found: string }[]).map(formatFault).join('\n');
        });
        return same(texts);
      },
    };
  },

  async 'the console'(prefix) {
    const { get, post } = await openConsole({ QUEUE_PREFIX: prefix, ...LIMITS });
    const textIn = ({ text }: PageAnswer) => decoded(text.replaceAll(/\s+/g, ' '));
    let confirmed: Readonly<Record<string, string>> = {};
    const look = ({ name, fields }: Case) => {
      const query = new URLSearchParams();
      for (const [field, value] of Object.entries(fields)) {
        for (const each of [value].flat()) query.append(field, each);
      }
      return get(`/${ADDRESS}/${name}?${query.toString()}`);
    };
    return {
      who: 'local',
      async preview(operated) {
        const page = await look(operated);
        expect([page.status, page.text.includes('<b>')]).toEqual([200, false]);
        const hidden = [...page.text.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)];
        confirmed = Object.fromEntries(hidden.map(([, field = '', value = '']) => [field, decoded(value)]));
        const [, would = '', outcome = ''] =
          /<\/h1> <p>(.*?)<\/p>.*<p class="outcome">(.*?)<\/p>/.exec(page.text.replaceAll(/\s+/g, ' ')) ?? [];
        const [, many = '0'] = /^(?:All )?(\d+)/.exec(outcome) ?? [];
        return { would: decoded(would), foreseen: Number(many) };
      },
      async run({ name }) {
        const done = await post(`/${ADDRESS}/${name}`, confirmed);
        expect(done.status).toBe(303);
        const [, count] = new RegExp(String.raw`^/recipients/\S+\?done=${name}&count=(\d+)$`).exec(done.location) ?? [];
        const page = await get(done.location);
        expect(textIn(page)).toContain(`Done: ${name === 'cancel' ? `${count} ` : (operationOf(name)?.done ?? '')}`);
        expect(page.text).not.toContain('<b>');
        return { count: Number(count) };
      },
      async refuse(operated) {
        const answers = [await look(operated), await post(`/${ADDRESS}/${operated.name}`, operated.fields)];
        for (const { status, text } of answers) {
          expect([status, text.includes(`href="/${ADDRESS}"`)]).toEqual([400, true]);
        }
        return same(answers.map((answer) => /role="alert">.*<\/ul>/.exec(textIn(answer))?.[0] ?? ''));
      },
    };
  },

  'the terminal': (prefix) => Promise.resolve(terminal(prefix, false)),
  'the terminal, as JSON': (prefix) => Promise.resolve(terminal(prefix, true)),
};

function terminal(prefix: string, asJson: boolean): Face {
  const start = ({ args: [name = '', ...flags] }: Case, json: readonly string[] = []) => {
    const env = { ...queueEnv(prefix), ...LIMITS };
    if (name === 'cancel') return runMain(cancel, ['--recipient', ID, ...flags, ...json], env);
    return runMain(recipient, [name, ID, ...flags, ...json], env);
  };
  return {
    who: `${userInfo().username} (terminal)`,
    async run(operated) {
      if (asJson) {
        const answer = await jsonOf(start(operated, ['--json']));
        const { moved, canceled, waiting, recipientId = ID } = answer;
        expect(recipientId).toBe(ID);
        const fields = answersOf(operated, answer);
        return { fields, count: Number(canceled ?? moved), ...(waiting !== undefined && { waiting: Number(waiting) }) };
      }
      const said = await outputOf(start(operated));
      const then = /(?:; |\n)(\d+) notifications? waits?, .*?(?:; (\d+) moved)?\n$/.exec(said);
      const text = said.slice(0, then?.index ?? -1);
      if (operated.name === 'cancel') return { text };
      return { text, waiting: Number(then?.[1] ?? 0), count: Number(then?.[2] ?? 0) };
    },
    async refuse(operated) {
      const { code, stdout, stderr } = await start(operated);
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
      return stderr;
    },
  };
}

/** What the preview and the operation refuse in the same words, but for the clock in them. */
function same(texts: readonly string[]): string {
  const [first = '', second] = texts.map((text) => text.replaceAll(/, which is \S+,/g, ''));
  expect(second).toBe(first);
  return first;
}

function decoded(text: string): string {
  return text
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&');
}

/** Without how long it is until then, which changes while the test runs. */
const timeless = (said: Said | undefined) => {
  const { would, text, ...rest } = said ?? {};
  const cut = (sentence: string) => sentence.replaceAll(/ \(in [^)]*\)/g, '');
  return { ...rest, ...(would !== undefined && { would: cut(would) }), ...(text !== undefined && { text: cut(text) }) };
};

it('has a case for every operation', () => {
  expect(CASES.map(({ name }) => name).toSorted()).toEqual(OPERATIONS.map(({ name }) => name).toSorted());
});

describe.each(Object.entries(FACES))('%s', (_, openFace) => {
  it('previews, does, answers and writes down what each operation does itself', async () => {
    const [own, other] = [await open(), await open()];
    const [doItself, face] = [itself(own), await openFace(other.operating.store.prefix)];
    for (const operated of CASES) {
      const { name } = operated;
      const before = await other.audit.read({ count: 99 });
      const foreseen = await face.preview?.(operated);
      expect(await other.audit.read({ count: 99 })).toEqual(before);
      const done = await face.run(operated);
      const expected = { name, ...timeless(await doItself(operated)) };
      for (const said of [foreseen, done]) expect({ ...expected, name, ...timeless(said) }).toEqual(expected);

      const [entry, ...earlier] = await other.audit.read({ count: 99 });
      expect(earlier).toEqual(before);
      const [written] = await own.audit.read({ count: 1 });
      expect(entry).toMatchObject({ who: face.who, action: `recipient ${name}`, on: ID });
      expect(entry?.facts).toEqual(written?.facts);
    }
  });

  it.each<readonly [fault: string, operated: Case]>([
    [
      'for: expected a duration',
      { name: 'block', fields: { for: 'soon', reason: '' }, args: ['block', '--for', 'soon', '--reason', ''] },
    ],
    [
      'until: expected an instant ahead of now',
      {
        name: 'block',
        fields: { until: '2020-01-01T00:00:00Z', reason: 'a' },
        args: ['block', '--until', '2020-01-01T00:00:00Z', '--reason', 'a'],
      },
    ],
    ['rules: expected ', { name: 'limit', fields: {}, args: ['limit'] }],
    [
      'none: expected no other ',
      { name: 'quiet', fields: { from: '21:00', none: 'true' }, args: ['quiet', '--from', '21:00', '--none'] },
    ],
  ])('refuses what is not usable by the name of its field, and writes nothing down: %s', async (fault, operated) => {
    const { audit, operating } = await open();
    const face = await openFace(operating.store.prefix);
    expect(await face.refuse(operated)).toContain(fault);
    expect(await audit.read({ count: 1 })).toEqual([]);
    if (fault.startsWith('for')) expect(await face.refuse(operated)).toContain('reason: expected 1 to 500 printable');
    expect(() => asked({ ...operated, fields: { ...operated.fields, nap: '1' } })).toThrow(InputError);
  });
});

it('what is noted about a recipient is shown wherever the recipient is, and is kept for a year', async () => {
  const { operating, audit } = await open();
  const { connection, prefix } = operating.store;
  const note = CASES.filter(({ name }) => name === 'note');
  for (const operated of note) await runOperation(asked(operated), operating, 'olga');
  const api = await openApi({ QUEUE_PREFIX: prefix });
  const console = await openConsole({ QUEUE_PREFIX: prefix });
  const show = (...flags: string[]) => runMain(recipient, ['show', ID, ...flags], queueEnv(prefix));
  const seen = { text: TEXT, by: 'olga', at: expect.any(Number) as number };
  expect((await api.call('GET', `/v1/${ADDRESS}`)).body['note']).toEqual(seen);
  expect((await jsonOf(show('--json')))['note']).toEqual(seen);
  expect(await outputOf(show())).toContain(`${TEXT} (olga, 20`);
  const page = (await console.get(`/${ADDRESS}`)).text;
  expect(decoded(page)).toContain(`${TEXT} (olga, 20`);
  expect(page).toMatch(/<input name="text"[^>]* required/);
  const [ttl] = await Promise.all((await connection.keys(`${prefix}:note:*`)).map((key) => connection.ttl(key)));
  expect(ttl).toBeGreaterThan(365 * 86_400);
  expect(await audit.read({ count: 9 })).toHaveLength(1);
});
