import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, it } from 'vitest';
import { NO_LATENCY } from '../../../sandbox/loopback/timing.ts';
import { makeDevice, makeNotification } from '../../support/push.ts';
import { openCollector } from '../../support/otlp.ts';
import { startProcess } from '../../support/process.ts';
import { temporaryFolder } from '../../support/program.ts';
import { waitFor } from '../../support/wait.ts';
import { openWorkerBench, type WorkerBench } from '../../support/worker.ts';

const open = () => openWorkerBench({ latency: NO_LATENCY });
const CONSUMER = 5;
const PRODUCER = 4;

/** Adds a notification as any BullMQ client may, and waits until it is delivered. */
async function deliverOne({ queue }: WorkerBench): Promise<string> {
  const notification = makeNotification({ recipientId: crypto.randomUUID() });
  await queue.add('push', notification, { jobId: notification.id, priority: 10 });
  await waitFor(async () => expect(await queue.getJobState(notification.id)).toBe('completed'));
  return notification.id;
}

/**
 * Flags of Node for a process that names each package of OpenTelemetry that this project's code looks for, and does not find those in
 * `missing`. prom-client depends on `@opentelemetry/api`, and loads it in any case.
 */
async function watching(missing: RegExp): Promise<string[]> {
  const file = join(await temporaryFolder(), 'watch.mjs');
  const hook = `
    import { writeSync } from 'node:fs';
    import { registerHooks } from 'node:module';
    registerHooks({
      resolve(name, context, next) {
        const isOwn = context.parentURL?.includes('/src/observe/') === true;
        if (!name.startsWith('@opentelemetry/') || !isOwn) return next(name, context);
        writeSync(2, 'looked for ' + name + '\\n');
        if (${String(missing)}.test(name)) throw Object.assign(new Error('no ' + name), { code: 'ERR_MODULE_NOT_FOUND' });
        return next(name, context);
      },
    });`;
  await writeFile(file, hook);
  return ['--import', pathToFileURL(file).href];
}

/** Without these flags a process finds no SDK. */
const WITH_SDK = ['--import', import.meta.resolve('../../../tools/otel-sdk.ts')];

const NONE = /^$/;
const WARNING = /"level":"warn".*OTEL_… asks for traces/;

it('sends the spans of a worker and of the enqueue command to a collector, also the last ones at their end', async () => {
  const bench = await open();
  const collector = await openCollector();
  const worker = await bench.startWorker(collector.env, WITH_SDK);
  const { token } = makeDevice('fcm');
  const flags = ['--recipient', 'teacher-42', '--fcm', token, '--title', 'a private title', '--id', 'msg-8841'];
  const args = [...WITH_SDK, 'scripts/enqueue.ts', ...flags];
  // So long that only the flush at the end can send the span of a process that lives for a second.
  const env = { ...bench.env, ...collector.env, OTEL_BSP_SCHEDULE_DELAY: '60000' };
  const { code } = await startProcess({ args, env }).waitForExit();
  expect(code).toBe(0);

  const pass = await waitFor(() => {
    const found = collector.spans.find(({ kind }) => kind === CONSUMER);
    expect(found?.attributes['pushpacer.result']).toBe('delivered');
    return found;
  });
  const enqueued = collector.spans.find(({ kind }) => kind === PRODUCER);
  expect(enqueued?.resource['service.name']).toBe('pushpacer-enqueue');
  expect(pass?.resource['service.name']).toBe('pushpacer-worker');
  expect(pass?.attributes['messaging.message.id']).toBe('msg-8841');
  expect(pass?.links).toEqual([expect.objectContaining({ traceId: enqueued?.traceId, spanId: enqueued?.spanId })]);

  // Nothing of the command line, and no metrics and logs, for which nobody has asked.
  const written = JSON.stringify(collector.spans);
  for (const secret of [token, 'a private title', 'teacher-42']) expect(written).not.toContain(secret);
  expect(new Set(collector.paths)).toEqual(new Set(['/v1/traces']));

  const before = collector.spans.length;
  await deliverOne(bench);
  worker.kill();
  expect((await worker.waitForExit()).code).toBe(0);
  expect(collector.spans.slice(before).map(({ kind }) => kind)).toContain(CONSUMER);
});

it('looks for no package of OpenTelemetry where no variable asks for traces, or OTEL_SDK_DISABLED', async () => {
  const bench = await open();
  const flags = await watching(NONE);
  const env = { OTEL_SDK_DISABLED: 'true', OTEL_SERVICE_NAME: 'push', OTEL_PUSHPACER_PARENT: 'true' };
  const worker = await bench.startWorker(env, flags);
  await deliverOne(bench);
  worker.kill();
  const { stdout, stderr } = await worker.waitForExit();
  expect(stderr).not.toContain('looked for');
  expect(stdout).not.toMatch(WARNING);
  // What says so can say otherwise.
  const asked = await bench.startWorker({ OTEL_TRACES_EXPORTER: 'none' }, flags);
  asked.kill();
  expect((await asked.waitForExit()).stderr).toMatch(
    /looked for @opentelemetry\/api\n[^]*looked for @opentelemetry\/sdk-node\n/,
  );
});

it('warns once and goes on where a package is missing', async () => {
  const bench = await open();
  for (const missing of [/^@opentelemetry\/api$/, /^@opentelemetry\/sdk-node$/]) {
    const worker = await bench.startWorker({ OTEL_SERVICE_NAME: 'push' }, [...WITH_SDK, ...(await watching(missing))]);
    await deliverOne(bench);
    worker.kill();
    const { code, stdout } = await worker.waitForExit();
    expect(code).toBe(0);
    const warnings = stdout.split('\n').filter((line) => WARNING.test(line));
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(/npm install .*@opentelemetry\/sdk-node/);
  }
});

it('uses the tracer provider that the operator has registered, and starts no second one', async () => {
  const bench = await open();
  const file = join(await temporaryFolder(), 'own.mjs');
  const resolve = (name: string) => JSON.stringify(import.meta.resolve(name));
  const own = `
    import { trace } from ${resolve('@opentelemetry/api')};
    import { SimpleSpanProcessor, TracerProvider } from ${resolve('@opentelemetry/sdk-trace')};
    const exporter = {
      export(spans, done) {
        for (const { name } of spans) console.error('own span: ' + name);
        done({ code: 0 });
      },
      shutdown: () => Promise.resolve(),
    };
    trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }));`;
  await writeFile(file, own);
  const flags = [...(await watching(NONE)), '--import', pathToFileURL(file).href];
  const worker = await bench.startWorker({ OTEL_PUSHPACER_PARENT: 'true', OTEL_SERVICE_NAME: 'push' }, flags);
  await deliverOne(bench);
  worker.kill();
  const { stderr } = await worker.waitForExit();
  expect(stderr).toContain('own span: process');
  expect(stderr).not.toContain('looked for @opentelemetry/sdk-node\n');
});

it('says in the log that a collector cannot be reached, and delivers and stops all the same', async () => {
  const bench = await open();
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9', OTEL_EXPORTER_OTLP_TIMEOUT: '500' };
  const noWaiting = { OTEL_BSP_SCHEDULE_DELAY: '100', OTEL_BSP_EXPORT_TIMEOUT: '500' };
  const worker = await bench.startWorker({ ...env, ...noWaiting }, WITH_SDK);
  await deliverOne(bench);
  await worker.waitForLine(/OpenTelemetry reports a trouble/);
  worker.kill();
  expect((await worker.waitForExit()).code).toBe(0);
});
