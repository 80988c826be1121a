import { expect, test } from 'vitest';
import { openConsole } from '../../support/console.ts';
import { isTooWide, openPage, seriousFindings } from '../../support/browser.ts';
import { openSchool } from '../../console/school.ts';

test('without scripts, on a narrow screen, in the dark: it can be read and used', async () => {
  const bench = await openConsole();
  const { wait, limiter } = openSchool(bench);
  const hostile = `<script>document.title='x'</script>"'${'y'.repeat(200)}`;
  const ids = Array.from({ length: 40 }, (_, number) => ({ id: `msg-${number}` }));
  await wait(hostile, ...ids);
  const path = `${bench.url}/recipients/${encodeURIComponent(hostile)}`;
  const narrow = { viewport: { width: 390, height: 844 }, colorScheme: 'dark' } as const;

  const { page } = await openPage({ ...narrow, javaScriptEnabled: false });
  await page.goto(path);
  await page.getByText('Forget what was sent').click();
  await page.getByText('What was sent counts no longer').waitFor();
  await page.getByRole('button', { name: 'Preview' }).click();
  await page.getByRole('button', { name: 'Forget what was sent' }).click();
  await page.getByText('Done: what was sent counts no longer').waitFor();
  expect((await limiter.inspect(hostile)).sent).toEqual([]);

  const scripted = await openPage(narrow);
  for (const of of [path, `${path}/block?for=1h&reason=exam`, `${bench.url}/what-if?rules=1/1m&gap=0`]) {
    await scripted.page.goto(of);
    expect(await isTooWide(scripted.page), of).toBe(false);
    expect(await seriousFindings(scripted.page), of).toEqual([]);
  }
  expect(scripted.faults).toEqual([]);
});
