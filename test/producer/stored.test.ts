import { expect, onTestFinished, test } from 'vitest';
import { formatFault } from '../../src/domain/faults.ts';
import { parseNotification } from '../../src/notification/notification.ts';
import { checkInput, createProducer, type EnqueueInput, type Producer } from '../../src/producer/producer.ts';
import { notification, openQueues, present } from '../queue/support.ts';
import { testTarget } from '../support/redis.ts';

// What is stored is what was checked, whatever the caller does with the object, and however JSON writes it.

function open() {
  const { prefix, queue } = openQueues();
  const producer: Producer = createProducer({ ...testTarget(), prefix });
  onTestFinished(() => producer.close());
  const stored = async (id: string) => present(await queue.getJob(id)).data as EnqueueInput;
  return { producer, stored };
}

const LISTS = ['a', 'b', 'c'];

test('an object that is used again for each call is stored as it was at each call', async () => {
  const { producer, stored } = open();
  const alert = { title: '' };
  const input = { ...notification(), id: '', alert };
  const calls = LISTS.map((id) => {
    input.id = id;
    alert.title = `List ${id}`;
    return producer.enqueue(input);
  });
  expect((await Promise.all(calls)).every(({ added }) => added)).toBe(true);
  for (const id of LISTS) expect(await stored(id)).toEqual({ ...notification(), id, alert: { title: `List ${id}` } });
});

test('an object that a sequence yields again and again is stored as it was each time', async () => {
  const { producer, stored } = open();
  function* inputs(): Generator<EnqueueInput> {
    const alert = { title: '' };
    const input = { ...notification(), id: '', alert };
    for (const id of LISTS) {
      input.id = id;
      alert.title = `List ${id}`;
      yield input;
    }
  }
  expect(await producer.enqueueMany(inputs(), {})).toMatchObject({ read: 3, added: 3 });
  for (const id of LISTS) expect(await stored(id)).toMatchObject({ id, alert: { title: `List ${id}` } });
});

/** As classes of an ORM are: the fields are read by getters of the class, which JSON does not write. */
class Row {
  get recipientId() {
    return 'teacher-42';
  }
  get devices() {
    return notification().devices;
  }
  get alert() {
    return { title: 'Room 12' };
  }
  get id() {
    return 'row';
  }
}

test('an object is refused if JSON leaves out what it must have', async () => {
  const { producer } = open();
  const [refused] = await producer.enqueueMany([new Row()]);
  expect(refused).toMatchObject({ kind: 'invalid' });
  const paths = refused?.kind === 'invalid' ? refused.faults.map(({ path }) => path) : [];
  expect(paths).toEqual(expect.arrayContaining(['id', 'recipientId', 'devices', 'alert']));
});

/** Has the fields, and says itself what JSON writes. */
class Written {
  readonly #written: unknown;
  constructor(fields: EnqueueInput, written: unknown) {
    Object.assign(this, fields);
    this.#written = written;
  }
  toJSON() {
    return this.#written;
  }
}

test('an object that writes itself as JSON is stored as it was written, if that fits', async () => {
  const { producer, stored } = open();
  const own = notification({ id: 'own' });
  const written = notification({ id: 'own', badge: 3 });
  await producer.enqueue(new Written(own, written) as unknown as EnqueueInput);
  expect(await stored('own')).toEqual(written);
  for (const nothing of [{}, undefined, 'text']) {
    const input = new Written(own, nothing) as unknown as EnqueueInput;
    expect(checkInput(input)).toMatchObject({ kind: 'invalid' });
  }
});

test.each([
  ['undefined', { at: undefined }],
  ['NaN', { at: NaN }],
  ['a function', { at: () => 1 }],
  ['a date', { at: new Date(0) }],
  ['a map', { at: new Map() }],
])('%s in the data is still a fault, though JSON would write something', (_, data) => {
  expect(checkInput(notification({ data: data as never }))).toMatchObject({
    kind: 'invalid',
    faults: [{ path: expect.stringMatching(/^data/) as string }],
  });
});

test('an integer that JSON parsers round is refused where it is enqueued, and a worker takes such a job', () => {
  const data = {
    safe: [Number.MAX_SAFE_INTEGER, -1e15, 1.5e-300],
    form: { ids: [1, 2 ** 53, -(2 ** 60)] },
    far: 1e300,
  };
  const input = notification({ id: 'n', data });
  const checked = checkInput(input);
  expect(checked.kind === 'invalid' && checked.faults.map(formatFault)).toEqual(
    ['data.form.ids[1]', 'data.form.ids[2]', 'data.far'].map(
      (path) =>
        `${path}: expected an integer from -9007199254740991 to 9007199254740991 (write larger integers as texts), found one beyond`,
    ),
  );
  expect(parseNotification(input)).toMatchObject({ ok: true });
});

test('a notification whose JSON is longer than a worker reads is refused', () => {
  const escaped = (length: number) => notification({ fcm: { message: { data: { text: '\u0001'.repeat(length) } } } });
  expect(checkInput(escaped(60_000))).toMatchObject({ kind: 'added' });
  expect(checkInput(escaped(70_000))).toMatchObject({
    kind: 'invalid',
    faults: [
      { path: '', expected: 'at most 400000 characters as JSON', found: expect.stringMatching(/^420\d{3}$/) as string },
    ],
  });
});

test('a field that is undefined is as one that is not there', async () => {
  const { producer, stored } = open();
  await producer.enqueue(notification({ id: 'n', sound: undefined }));
  expect(await stored('n')).toEqual(notification({ id: 'n' }));
});
