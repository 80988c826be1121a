import type { Queue } from 'bullmq';
import { describe, expect, test, vi } from 'vitest';
import { addDead, deadLetter, manyLetters } from '../dead-letters/letters.ts';
import { notification, present } from '../queue/support.ts';
import { openConsole, type ConsoleBench, type PageAnswer } from '../support/console.ts';
import { waitFor } from '../support/wait.ts';

const replayed = async (queue: Queue) => (await queue.getPrioritized(0, -1)).map(({ id }) => id);
const left = (deadQueue: Queue) => deadQueue.getJobCountByTypes('wait');

/** The hidden fields of the form that begins a run, as its button sends them. */
function fieldsOf({ text }: PageAnswer): Record<string, string | string[]> {
  const form = present(/<form method="post" action="\/dead-letters\/runs"[^]*?<\/form>/.exec(text)?.[0]);
  const fields: Record<string, string[]> = {};
  for (const [, name = '', value = ''] of form.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)"/g)) {
    (fields[name] ??= []).push(value.replaceAll('&quot;', '"').replaceAll('&#39;', "'").replaceAll('&lt;', '<'));
  }
  return fields;
}

/** Waits until the page of a run says that it has ended; answers the page. */
async function ended({ get }: ConsoleBench, { status, location }: PageAnswer): Promise<string> {
  expect({ status, location }).toEqual({
    status: 303,
    location: expect.stringMatching(/^\/dead-letters\/runs\//) as string,
  });
  return vi.waitFor(
    async () => {
      const { text } = await get(location);
      expect(text).not.toContain('data-refresh');
      return text;
    },
    { timeout: 15_000, interval: 100 },
  );
}

describe('the list', () => {
  test('shows reasons, times and letters, the newest first; what to do next; no text and no token', async () => {
    const { get, deadQueue } = await openConsole();
    const now = Date.now();
    await addDead(deadQueue, {
      old: deadLetter('old', { deadAt: now - 3 * 86_400_000, reason: 'stalled', generation: 2 }),
      new: deadLetter('new', { deadAt: now - 1_000 }),
    });
    const { status, text } = await get('/dead-letters');
    expect(status).toBe(200);
    expect(text.indexOf('id=new"')).toBeLessThan(text.indexOf('id=old"'));
    expect(text).toContain('2 dead letters');
    const headings = [...text.matchAll(/<th scope="col"[^>]*>([^<]*)</g)].map(([, name]) => name);
    expect(headings.slice(-9)).toEqual([
      'Choose',
      'Dead letter',
      'Reason',
      'Died',
      'Recipient',
      'Attempts',
      'Replays',
      'To',
      'Message',
    ]);
    expect(text).toMatch(/id=new"[^]*?<\/td>[^]*?badge[^]*?<\/td>[^]*?<time[^]*?<\/td>/);
    expect(text).toContain('1 dead letter in the last hour');
    expect(text).toContain('Older than a day: 1');
    expect(text).toContain('href="/recipients/recipient-new"');
    expect(text).toContain('verb=replay&amp;reason=stalled');
    for (const hidden of ['Room 12', 'Field trip', 'abababab']) expect(text).not.toContain(hidden);
  });

  test('has the filters of the commands in its address, and pages', async () => {
    const { get, deadQueue } = await openConsole();
    await addDead(deadQueue, manyLetters(60));
    await addDead(deadQueue, {
      x: deadLetter('x', {
        notification: notification({ id: 'x', recipientId: 'teacher-7', category: 'forms' }),
        deadAt: Date.now() - 3_600_000,
      }),
    });
    for (const query of ['recipient=teacher-7', 'category=forms', 'id=x', 'until=30m', 'platform=apns&until=30m']) {
      const { text } = await get(`/dead-letters?${query}`);
      expect({ query, found: text.includes('1 of 61 dead letters') }).toEqual({ query, found: true });
      expect(text).not.toContain('recipient-n1"');
    }
    expect((await get('/dead-letters?recipient=teacher-7%20')).text).toContain('Take something out of the filter');
    expect((await get('/dead-letters?utm_source=chat&recipient=teacher-7')).text).toContain('1 of 61 dead letters');
    expect((await get('/dead-letters?app=%27%27')).text).toContain('61 of 61 dead letters');
    expect((await get('/dead-letters?app=teacher')).text).toContain('Take something out of the filter');
    expect((await get('/dead-letters')).text).toContain('Page 1 of 2');
    const second = await get('/dead-letters?page=2');
    expect(second.text.match(/name="pick"/g)).toHaveLength(11);
    expect(await get('/dead-letters?reason=&recipient=teacher-7&since=')).toMatchObject({
      ...{ status: 303, location: '/dead-letters?recipient=teacher-7' },
    });
    const wrong = await get('/dead-letters?reason=bored&since=yesterday');
    expect(wrong.status).toBe(400);
    expect(wrong.text).toContain('reason: expected invalid, unregistered');
    expect(wrong.text).toContain('since: expected an RFC 3339 date-time');
    expect(wrong.text).toContain('<a href="/dead-letters">Back to Dead letters</a>');
  });

  test('with none it says so', async () => {
    const { get } = await openConsole();
    expect((await get('/dead-letters')).text).toContain('nothing is to be done');
  });
});

test('what a newer version wrote stays, as its page and the preview of a run say', async () => {
  const { get, deadQueue } = await openConsole();
  await addDead(deadQueue, { newer: { format: 2 }, known: deadLetter('known') });
  const words = '1 dead letter was written by a newer version of pushpacer, and is not';
  expect((await get('/dead-letters/one?id=newer')).text).toContain(`${words} replayed or discarded: `);
  expect((await get('/dead-letters/preview?verb=replay&all=true')).text).toContain(`${words} replayed: `);
});

describe('one', () => {
  test('says why, what helps, each device and each attempt', async () => {
    const { get, deadQueue } = await openConsole();
    const attempts = [
      { at: 1_784_000_000_000, device: 'apns#0', error: 'InternalServerError' },
      { at: 1_784_000_060_000, device: 'apns#0', error: 'ServiceUnavailable' },
    ];
    const devices = [
      { platform: 'apns', token: 'ab'.repeat(32) },
      { platform: 'fcm', token: 'f'.repeat(40) },
    ] as const;
    const whole = { ...notification({ id: 'a', devices: [...devices] }) };
    const story = {
      firstEnqueuedAt: 1_783_999_000_000,
      enqueuedBy: 'school-api',
      passes: [{ at: 1, result: 'retried' }],
    };
    await addDead(deadQueue, {
      a: deadLetter('a', { notification: whole, reason: 'attempts-exhausted', attempts, delivered: ['fcm#1'], story }),
    });
    const { text } = await get('/dead-letters/one?shard=0&id=a');
    for (const each of [
      'Replay when the provider works again',
      'alerted: a replay skips it',
      'ServiceUnavailable',
      'school-api',
      '1 pass',
    ]) {
      expect(text).toContain(each);
    }
    expect(text).toContain('href="/notifications/a"');
    expect(text).toContain('are not shown');
    for (const hidden of ['Field trip', 'abababab', 'ffffffff']) expect(text).not.toContain(hidden);
    expect((await get('/dead-letters/one?id=a')).status).toBe(200);
    expect((await get('/dead-letters/one?shard=1&id=a')).status).toBe(404);
  });

  test('shows texts only if the console was started so, and never a token', async () => {
    const { get, deadQueue } = await openConsole({ CONSOLE_SHOW_TEXTS: 'true' });
    await addDead(deadQueue, manyLetters(1));
    const { text } = await get('/dead-letters/one?id=n0');
    expect(text).toContain('Field trip forms are due');
    expect(text).not.toContain('abababab');
  });
});

test('a hostile letter is shown escaped, and not at length', async () => {
  const { get, post, queue, deadQueue } = await openConsole({ CONSOLE_SHOW_TEXTS: 'true' });
  const evil = '<script>alert(1)</script>';
  const long = 'x'.repeat(200_000);
  await addDead(deadQueue, {
    [evil]: deadLetter(evil, {
      notification: { id: evil, recipientId: evil, category: evil, alert: { title: evil, body: long }, devices: evil },
      message: `${evil}\u202e${long}`,
      story: { firstEnqueuedAt: 1e300, enqueuedBy: 'x', passes: [] },
      attempts: Array.from({ length: 500 }, () => ({ at: 1, device: evil, error: evil + long.slice(0, 300) })),
    }),
    foreign: { anything: long },
    text: evil,
  });
  await deadQueue.add('push', {}, { jobId: 'broken' });
  const client = await deadQueue.getBackend().client;
  await client.hset(deadQueue.toKey('broken'), { data: `not JSON ${evil}` });
  const id = encodeURIComponent(evil);
  const pages = ['', `/one?id=${id}`, '/one?id=broken', '/one?id=foreign', `/preview?verb=replay&id=${id}`, `/preview?verb=discard&pick=0:${id}`]; // prettier-ignore
  for (const path of pages) {
    const { status, text } = await get(`/dead-letters${path}`);
    expect({ path, status }).toEqual({ path, status: 200 });
    expect(text).not.toContain(evil);
    expect(text).not.toContain('\u202e');
    expect(text.length).toBeLessThan(120_000);
  }
  const look = await post('/dead-letters/preview', { verb: 'replay', pick: [`0:${evil}`, '0:broken'] });
  expect(look.text).toContain('Replay 2 dead letters');
  expect((await post('/dead-letters/preview', { verb: 'replay', pick: 'no shard' })).status).toBe(400);
  const none = await post('/dead-letters/preview', { verb: 'replay' });
  expect(none.status).toBe(400);
  expect(none.text).toContain('nothing is chosen');
  for (const key of ['meta', 'wait', 'events', '']) {
    expect((await get(`/dead-letters/one?id=${key}`)).status).toBe(404);
  }
  expect(await left(deadQueue)).toBe(4);
  expect(await replayed(queue)).toEqual([]);
});

describe('what is done', () => {
  test('a replay of a filter: first what it comes to, then with progress, then in the audit', async () => {
    const bench = await openConsole({ LIMIT_RULES: '10/1m', LIMIT_MIN_GAP: '3s' });
    const { get, post, queue, deadQueue } = bench;
    const busy = { notification: notification({ recipientId: 'busy' }), reason: 'bad-token' } as const;
    await addDead(deadQueue, { ...manyLetters(3), a: deadLetter('a', busy), b: deadLetter('b', busy) });
    const look = await get('/dead-letters/preview?verb=replay&reason=bad-token&rate=30/m');
    expect(look.text).toContain('Replay 2 dead letters');
    expect(look.text).toMatch(/busy<\/a\s*>: 2/);
    expect(look.text).toContain('30/m at most');
    expect(look.text).toContain('10/1m, gap 3s');
    expect(look.text).toMatch(/in 3s<\/time/);
    expect(await left(deadQueue)).toBe(5);
    await addDead(deadQueue, { late: deadLetter('late', busy) }); // nobody has seen it: it stays
    const page = await ended(bench, await post('/dead-letters/runs', fieldsOf(look)));
    expect(page).toContain('2 of 2 replayed');
    expect(await replayed(queue)).toEqual(['a#r1', 'b#r1']);
    expect(await left(deadQueue)).toBe(4);
    await waitFor(async () => expect((await get('/audit')).text).toContain('state done'));
    expect((await get('/audit')).text).toMatch(/dead-letters replay[^]*reason bad-token[^]*state began, rate 30\/m/);
    expect((await get('/dead-letters')).text).toContain('2 of 2');
  });

  test('chosen ones, and one alone', async () => {
    const bench = await openConsole();
    const { get, post, queue, deadQueue } = bench;
    await addDead(deadQueue, manyLetters(5));
    const look = await post('/dead-letters/preview', { verb: 'replay', pick: ['0:n1', '0:n3'] });
    await ended(bench, await post('/dead-letters/runs', fieldsOf(look)));
    expect(await replayed(queue)).toEqual(['n1#r1', 'n3#r1']);
    const alone = await get('/dead-letters/preview?verb=discard&pick=0:n4');
    expect(alone.text).not.toContain('name="typed"');
    await ended(bench, await post('/dead-letters/runs', fieldsOf(alone)));
    expect(await left(deadQueue)).toBe(2);
    expect((await get('/dead-letters/preview?verb=replay&pick=0:n4')).text).toContain('There are none of these');
    expect((await post('/dead-letters/preview', { verb: 'replay' })).text).toContain('at least one dead letter');
  });

  test('a discard wants the number to be typed', async () => {
    const bench = await openConsole();
    const { get, post, deadQueue } = bench;
    await addDead(deadQueue, manyLetters(12));
    const look = await get('/dead-letters/preview?verb=discard&all=yes');
    expect(look.text).toContain('Type 12 to discard');
    for (const typed of ['', '11', 'yes']) {
      const wrong = await post('/dead-letters/runs', { ...fieldsOf(look), typed });
      expect(wrong.status).toBe(400);
      expect(wrong.text).toContain('Nothing was discarded');
    }
    expect(await left(deadQueue)).toBe(12);
    expect(await ended(bench, await post('/dead-letters/runs', { ...fieldsOf(look), typed: '12' }))).toContain(
      '12 of 12 discarded',
    );
    expect(await left(deadQueue)).toBe(0);
  });

  test('more than three at once are refused, and each stops when it is told to', async () => {
    const bench = await openConsole();
    const { get, post, deadQueue } = bench;
    await addDead(deadQueue, manyLetters(20));
    const fields = fieldsOf(await get('/dead-letters/preview?verb=replay&all=yes&rate=5/h'));
    const answers = [];
    for (let n = 0; n < 4; n++) answers.push(await post('/dead-letters/runs', fields));
    expect(answers.map(({ status }) => status)).toEqual([303, 303, 303, 409]);
    const first = present(answers[0]);
    expect((await get(first.location)).text).toContain('data-refresh="1000"');
    expect(await post(`${first.location}/stop`)).toMatchObject({ status: 303, location: first.location });
    expect(await ended(bench, first)).toContain('stopped');
  });
});

test('a viewer sees all of it, and no form; nothing is done for them, nor from another site', async () => {
  const { get, post, deadQueue, secrets } = await openConsole(
    { CONSOLE_LOGIN: 'true' },
    { eyes: ['read'], hands: ['read', 'operate'] },
  );
  await addDead(deadQueue, manyLetters(3));
  const as = (name: string) => ({ cookie: `pushpacer_console=${present(secrets[name])}` });
  for (const path of ['', '/one?id=n0', '/preview?verb=discard&all=yes']) {
    const { status, text } = await get(`/dead-letters${path}`, as('eyes'));
    expect(status).toBe(200);
    expect(text.replaceAll('action="/logout"', '')).not.toMatch(/method="post" action|name="pick"|verb=replay/);
  }
  const fields = { ...fieldsOf(await get('/dead-letters/preview?verb=discard&all=yes', as('hands'))), typed: '3' };
  expect((await post('/dead-letters/runs', fields, as('eyes'))).status).toBe(403);
  expect((await post('/dead-letters/runs', fields)).status).toBe(401);
  expect((await post('/dead-letters/runs', fields, { ...as('hands'), 'sec-fetch-site': 'cross-site' })).status).toBe(403); // prettier-ignore
  expect(await left(deadQueue)).toBe(3);
  expect((await post('/dead-letters/runs', fields, as('hands'))).status).toBe(303);
});
