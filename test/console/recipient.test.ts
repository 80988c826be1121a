import { describe, expect, it } from 'vitest';
import { createAudit } from '../../src/operations/audit.ts';
import { openConsole, type PageAnswer } from '../support/console.ts';
import { openSchool } from './school.ts';

const ID = 'teacher-42';

async function open(...args: Parameters<typeof openConsole>) {
  const bench = await openConsole(...args);
  return { ...bench, ...openSchool(bench), audit: createAudit(bench.connection, bench.prefix) };
}

/** On one line. */
function flat({ text }: PageAnswer): string {
  return text.replaceAll(/\s+/g, ' ');
}

/** The fields of the form that confirms. */
function hiddenIn({ text }: PageAnswer): Record<string, string> {
  const fields = [...text.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)];
  return Object.fromEntries(fields.map(([, name = '', value = '']) => [name, value]));
}

describe('the page of a recipient', () => {
  it('names the rule that holds each, when it goes, and what is before it, with a link to its story', async () => {
    const { get, wait } = await open();
    await wait(ID, { id: 'msg-0' }, { id: 'msg-1' }, { id: 'msg-2', category: 'messages' });
    const { status, text } = await get(`/recipients/${ID}`);
    expect(status).toBe(200);
    const rows = [...text.matchAll(/<tr>.*?<\/tr>/gs)].map(([row]) => row.replaceAll(/\s+/g, ' '));
    const row = rows.find((each) => each.includes('msg-2')) ?? '';
    expect(row).toContain('href="/notifications/msg-2"');
    expect(row).toMatch(/<time [^>]*title="\d{4}-[^"]*Z"[^>]*data-at="\d{13}"/);
    expect(row).toContain('>gap<');
    expect(row).toContain('<td class="number" data-name="Before it">1</td>');
    expect(row).toContain('messages');
    expect(text).toContain('10/1m, gap 3s');
    expect(text.match(/class="mark sent"/g)).toHaveLength(1);
    expect(text.match(/class="mark reserved"/g)?.length).toBeGreaterThan(0);
  });

  it('says what to do where nothing is known, and that some ids cannot be', async () => {
    const { get } = await open();
    expect(flat(await get('/recipients/nobody'))).toContain('compare the id with the one that the producer sends');
    const { status, text } = await get(`/recipients/${'x'.repeat(257)}`);
    expect([status, text.includes('1 to 256 characters')]).toEqual([404, true]);
    expect((await get(`/recipients/${ID}/explode`)).status).toBe(404);
  });

  it('shows what another program asked for over HTTP, without a story and a cancel, since it has no job', async () => {
    const { get, wait, limiter } = await open();
    await wait(ID, { id: 'msg-0' });
    await limiter.admit({ recipientId: ID, id: 'http:email:msg-1' });
    const { text } = await get(`/recipients/${ID}`);
    const row =
      [...text.matchAll(/<tr>.*?<\/tr>/gs)].map(([each]) => each).find((each) => each.includes('msg-1')) ?? '';
    expect(row).toContain('http:email:msg-1');
    expect(row).toContain('asked for over HTTP');
    expect(row).not.toContain('href');
  });

  it('draws and lists a bounded part of many', async () => {
    const { get, wait } = await open();
    await wait(ID, ...Array.from({ length: 250 }, (_, number) => ({ id: `msg-${number}` })));
    const { text } = await get(`/recipients/${ID}`);
    expect(text.match(/>Cancel</g)).toHaveLength(100);
    expect(text).toContain('And 149 more behind them.');
    expect(text.match(/class="mark/g)?.length).toBeLessThan(202);
  });

  it('draws the range that its address names, with a link to each other one', async () => {
    const { get, wait } = await open();
    await wait(ID, { id: 'msg-0' }, { id: 'msg-1' });
    const [usual, hour] = [await get(`/recipients/${ID}`), await get(`/recipients/${ID}?range=1h&done=reset&count=1`)];
    const links = ({ text }: PageAnswer) =>
      [...text.matchAll(/<a href="([^"]*range=[^"]*)"([^>]*)>/g)].map(([, to = '', more = '']) => [
        to,
        more.includes('aria-current'),
      ]);
    const to = (range: string) => `/recipients/${ID}?range=${range}`;
    const all = ['1m', '10m', '1h', '1d', 'all'];
    expect(links(usual)).toEqual(all.map((range) => [to(range), range === '1m']));
    expect(links(hour)).toEqual(all.map((range) => [to(range), range === '1h']));
    const wrong = await get(to('week'));
    expect(wrong.status).toBe(400);
    expect(wrong.text).toContain('range: expected 1m, 10m, 1h, 1d, all, found');
  });
});

describe('an action', () => {
  it('shows what would move and expire, and says what moved', async () => {
    const { get, post, wait } = await open();
    await wait(ID, { id: 'a' }, { id: 'b', expiresAt: Date.now() + 90 * 60_000 }, { id: 'c' });
    const preview = await get(`/recipients/${ID}/block?for=2h&reason=exam`);
    const until = Number(hiddenIn(preview)['until']);
    const last = `${new Date(until + 3_000).toISOString().slice(0, 19)}Z`;
    expect(flat(preview)).toContain(`All 2 that wait move, the last one to ${last}`);
    expect(flat(preview)).toContain('1 expires before the new slot, and will not be sent.');
    expect(flat(preview)).toMatch(/(?:2h|1h 59m) later/);
    const { location } = await post(`/recipients/${ID}/block`, hiddenIn(preview));
    expect(flat(await get(location))).toContain('Done: the recipient is blocked; 2 notifications moved.');
    expect(flat(await get(`/recipients/${ID}`))).toContain('End the block');
  });

  it('is for operators: a viewer sees no form and can do nothing', async () => {
    const { get, post, wait, limiter, secrets } = await open({ CONSOLE_LOGIN: 'true' }, { vera: ['read'] });
    await wait(ID, { id: 'a' }, { id: 'b' });
    const cookie = { cookie: `pushpacer_console=${secrets['vera'] ?? ''}` };
    const { status, text } = await get(`/recipients/${ID}`, cookie);
    expect(status).toBe(200);
    expect(text).not.toMatch(/<form(?! class="user")|>Cancel</);
    expect((await get(`/recipients/${ID}/block?for=2h&reason=exam`, cookie)).status).toBe(403);
    expect((await post(`/recipients/${ID}/block`, { for: '2h', reason: 'exam' }, cookie)).status).toBe(403);
    expect((await limiter.inspect(ID)).block).toBeUndefined();
  });
});

describe('what if', () => {
  it('tries limits on a recipient and on a sample, and stays within the address', async () => {
    const { get, wait } = await open();
    await wait(ID, { id: 'a' }, { id: 'b' }, { id: 'c' });
    await wait('teacher-7', { id: 'd' }, { id: 'e' });
    expect(flat(await get('/what-if'))).toContain('In force: 10/1m, gap 3s.');
    const one = flat(await get(`/what-if?rules=1/1h&gap=0&recipient=${ID}`));
    expect(one).toContain('0 would go earlier, 2 later, 0 at the same time.');
    expect(one).toMatch(
      /Longest wait<\/td>.*?data-name="Now">(?:[\d.]+m?s)<\/td>.*?data-name="Then">(?:2h|1h 59m|1h 60m)/,
    );
    const sample = flat(await get('/what-if?rules=1/1h&gap=0&recipient='));
    expect(sample).toContain('on 2 recipients: 0 would go earlier, 3 later');
    expect(flat(await get('/what-if?rules=none&gap=0&recipient=nobody'))).toContain('Nothing waits for a slot now');
  });

  it('refuses what is not usable, by its field, with the form as it was', async () => {
    const { get } = await open();
    const { status, text } = await get('/what-if?rules=%3Cb%3E&gap=soon&category=letters');
    expect(status).toBe(400);
    for (const fault of ['rules[0]: expected max/per', 'gap: expected 0 or', 'category: expected a category']) {
      expect(text).toContain(fault);
    }
    expect(text).toContain('value="&lt;b&gt;"');
    expect(text).not.toContain('<b>');
  });
});
