import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import * as monitoring from '../support/monitoring.ts';

const alerts = await monitoring.readAlerts();
const { panels, templating } = await monitoring.readDashboard();
const charts = panels.filter(({ type }) => type !== 'row');
const RUNBOOK = 'docs/runbook.md';

/** As GitHub makes them of headings. */
const anchors = [...(await readFile(RUNBOOK, 'utf8')).matchAll(/^##+ (.+)$/gm)].map(([, heading = '']) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\w\s-]/g, '')
    .trim()
    .replaceAll(/\s/g, '-'),
);

it('every alert has a severity, a text with the value, and its section of the runbook', async () => {
  const { repository } = JSON.parse(await readFile('package.json', 'utf8')) as { repository: { url: string } };
  const page = `${repository.url.replace(/^git\+(.*)\.git$/, '$1')}/blob/main/${RUNBOOK}`;
  expect(alerts.length).toBeGreaterThan(12);
  for (const { alert, labels, annotations } of alerts) {
    const { summary, description, runbook_url: url = '', ...others } = annotations;
    expect([alert, Object.keys(others)]).toEqual([alert, []]);
    expect([alert, labels['severity']]).toEqual([alert, expect.stringMatching(/^(?:warning|critical)$/)]);
    expect([alert, summary]).toEqual([alert, expect.stringMatching(/^[A-Z].*\.$/)]);
    expect([alert, description]).toEqual([alert, expect.stringMatching(/\{\{.*\$value.*\}\}/)]);
    const [address, anchor = ''] = url.split('#');
    expect([alert, address]).toEqual([alert, page]);
    expect(anchors, alert).toContain(anchor);
  }
});

it('no alert looks at how many notifications wait', () => {
  const waiting = /pushpacer_(?:queue_jobs|waiting_oldest_age_seconds|wait_seconds|requeues_total)/;
  expect(alerts.filter(({ expr }) => waiting.test(expr))).toEqual([]);
});

it('the tests of the rules have the whole text of each alert', async () => {
  interface RuleTest {
    readonly alert_rule_test?: readonly { readonly alertname: string; readonly exp_alerts: readonly unknown[] }[];
  }
  const { tests } = await monitoring.readYaml<{ tests: RuleTest[] }>(monitoring.RULE_TESTS);
  const fired = tests
    .flatMap(({ alert_rule_test: cases = [] }) => cases)
    .filter(({ exp_alerts: expected }) => expected.length > 0);
  expect([...new Set(fired.map(({ alertname }) => alertname))].toSorted()).toEqual(
    alerts.map(({ alert }) => alert).toSorted(),
  );
});

it('every panel has a unit, says what is bad, and asks the data source that was chosen', () => {
  const datasource = { type: 'prometheus', uid: '${datasource}' };
  expect(charts.length).toBeGreaterThan(30);
  for (const panel of charts) {
    expect([panel.title, panel.fieldConfig?.defaults.unit]).toEqual([panel.title, expect.stringMatching(/./)]);
    expect([panel.title, panel.description]).toEqual([panel.title, expect.stringMatching(/\bbad\b/i)]);
    const sources = [panel, ...(panel.targets ?? [])].map((each) => each.datasource);
    expect([panel.title, sources]).toEqual([panel.title, sources.map(() => datasource)]);
    expect(
      panel.targets?.filter(({ expr }) => expr === ''),
      panel.title,
    ).toEqual([]);
  }
  expect(templating.list.map(({ name }) => name)).toEqual(['datasource', 'job']);
});

it('panels have ids of their own and do not lie on each other', () => {
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, at) => `${x + (at % w)},${y + Math.floor(at / w)}`),
  );
  expect(new Set(cells).size).toBe(cells.length);
  expect(Math.max(...panels.map(({ gridPos: { x, w } }) => x + w))).toBe(24);
});
