import { AsyncLocalStorage } from 'node:async_hooks';
import { hash } from 'node:crypto';
import {
  context,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Context,
  type ContextManager,
} from '@opentelemetry/api';
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider, type ReadableSpan } from '@opentelemetry/sdk-trace';
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { PLATFORMS, type Device } from '../../src/notification/notification.ts';
import { tokenOf } from '../../src/notification/device.ts';
import { createProducer } from '../../src/producer/producer.ts';
import { wantsTraces } from '../../src/observe/tracing.ts';
import { NO_LATENCY } from '../../sandbox/loopback/timing.ts';
import { openApi } from '../support/api.ts';
import { makeDevice, makeNotification } from '../support/push.ts';
import { testTarget } from '../support/redis.ts';
import { openReplicaBench, type ReplicaBench } from '../support/replica.ts';
import { waitFor } from '../support/wait.ts';

const exporter = new InMemorySpanExporter();
trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }));
const ON = { OTEL_TRACES_EXPORTER: 'none' };

beforeEach(() => exporter.reset());

/** A producer and a replica that are traced. */
function openTraced(): Promise<ReplicaBench> {
  return openReplicaBench({ latency: NO_LATENCY }, { tracing: true });
}

/** The spans of passes of this notification, in their order. */
function passesOf(id: string): ReadableSpan[] {
  return exporter
    .getFinishedSpans()
    .filter(({ kind, attributes }) => kind === SpanKind.CONSUMER && attributes['messaging.message.id'] === id);
}

/** Its last pass, when it has ended. A busy machine may miss a slot, so there may be passes before it. */
async function lastPassOf(id: string): Promise<ReadableSpan> {
  return waitFor(() => {
    const last = passesOf(id).at(-1);
    if (last === undefined || !['delivered', 'dead-lettered'].includes(String(resultOf(last)))) {
      throw new Error(`${id} has not ended`);
    }
    return last;
  });
}

function childrenOf(span: ReadableSpan): ReadableSpan[] {
  const { spanId } = span.spanContext();
  return exporter.getFinishedSpans().filter(({ parentSpanContext }) => parentSpanContext?.spanId === spanId);
}

function enqueueSpans(): ReadableSpan[] {
  return exporter.getFinishedSpans().filter(({ kind }) => kind === SpanKind.PRODUCER);
}

const resultOf = (span: ReadableSpan) => span.attributes['pushpacer.result'];
const linksOf = ({ links }: ReadableSpan) =>
  links.map(({ context: to, attributes }) => [attributes?.['pushpacer.link'], to.spanId]);

/** Enough for two requeues: the gap makes the second alert wait, and then the quota that the first one has used up. */
const TWICE = { LIMIT_MIN_GAP: '200ms', APNS_QUOTA: '1/1s' };
/** On a machine that stands still for longer than the quota's window, the quota has room again: then another pair is sent. */
const MOST_PAIRS = 5;

async function requeuedTwice(env: Readonly<Record<string, string>>) {
  const { producer, startHere, lines, sandbox } = await openTraced();
  await startHere({ ...ON, ...TWICE, ...env });
  for (let pair = 0; pair < MOST_PAIRS; pair += 1) {
    exporter.reset();
    const recipientId = `teacher-${pair}`;
    const [first, second] = [makeNotification({ recipientId }), makeNotification({ recipientId })];
    await producer.enqueue(first);
    await producer.enqueue(second);
    await lastPassOf(second.id);
    const passes = passesOf(second.id);
    if (passes.length === 3) return { second, enqueued: enqueueSpans()[1], passes, lines, sandbox };
  }
  throw new Error(`none of ${MOST_PAIRS} notifications was requeued twice`);
}

describe('one notification over two requeues', () => {
  it('has a trace for each pass, which links to the span that enqueued it and to the pass before', async () => {
    const { second, enqueued, passes, lines, sandbox } = await requeuedTwice({});
    expect(passes.map(resultOf)).toEqual(['requeued', 'requeued', 'delivered']);
    expect(passes.map(({ attributes }) => attributes['pushpacer.rule'])).toEqual(['gap', 'apns:1/1s', undefined]);
    expect(passes.map(({ attributes }) => attributes['pushpacer.requeues'])).toEqual([0, 1, 2]);
    expect(passes.map(({ parentSpanContext }) => parentSpanContext)).toEqual([undefined, undefined, undefined]);
    expect(new Set(passes.map((span) => span.spanContext().traceId)).size).toBe(3);

    const [one, two, three] = passes;
    const producer = ['producer', enqueued?.spanContext().spanId];
    expect(passes.map(linksOf)).toEqual([
      [producer],
      [producer, ['previous-pass', one?.spanContext().spanId]],
      [producer, ['previous-pass', two?.spanContext().spanId]],
    ]);

    expect(enqueued).toMatchObject({ status: { code: SpanStatusCode.UNSET } });
    expect(enqueued?.attributes).toMatchObject({
      'messaging.system': 'bullmq',
      'messaging.operation.type': 'send',
      'messaging.message.id': second.id,
    });
    expect(three?.attributes).toMatchObject({
      'messaging.operation.type': 'process',
      'messaging.destination.name': enqueued?.attributes['messaging.destination.name'],
      'pushpacer.platform': 'apns',
      'pushpacer.attempts': 1,
      'pushpacer.recipient_hash': hash('sha256', second.recipientId, 'hex').slice(0, 16),
      'pushpacer.lateness_ms': expect.any(Number) as number,
      'pushpacer.slot': expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/) as string,
      'pushpacer.waited_ms': expect.any(Number) as number,
    });

    const [ask] = one === undefined ? [] : childrenOf(one);
    expect(ask).toMatchObject({ name: 'admit', kind: SpanKind.INTERNAL });
    expect(ask?.attributes).toMatchObject({ 'pushpacer.answer': 'reserved', 'pushpacer.rule': 'gap' });
    const [admitted, send] = three === undefined ? [] : childrenOf(three);
    expect(admitted?.attributes).toMatchObject({ 'pushpacer.answer': 'admitted' });
    expect(send).toMatchObject({ name: 'POST /3/device/{token}', kind: SpanKind.CLIENT });
    expect(send?.attributes).toMatchObject({
      'http.request.method': 'POST',
      'http.response.status_code': 200,
      'server.address': '127.0.0.1',
      'server.port': Number(new URL(sandbox.env()['APNS_ENDPOINT'] ?? '').port),
      'url.full': `${sandbox.env()['APNS_ENDPOINT']}/3/device/REDACTED`,
    });

    const logged = lines.flatMap((line) => {
      const { id, traceId } = JSON.parse(line) as { id?: string; traceId?: string };
      return id === second.id && traceId !== undefined ? [traceId] : [];
    });
    expect(logged).toEqual(passes.map((span) => span.spanContext().traceId));
  });

  it('is one trace with OTEL_PUSHPACER_PARENT=true', async () => {
    const { enqueued, passes } = await requeuedTwice({ OTEL_PUSHPACER_PARENT: 'true' });
    expect(passes).toHaveLength(3);
    const parent = enqueued?.spanContext();
    for (const pass of passes) {
      expect(pass.spanContext().traceId).toBe(parent?.traceId);
      expect(pass.parentSpanContext?.spanId).toBe(parent?.spanId);
      expect(pass.parentSpanContext?.isRemote).toBe(true);
    }
    expect(passes.map((span) => linksOf(span).map(([what]) => what))).toEqual([
      [],
      ['previous-pass'],
      ['previous-pass'],
    ]);
  });
});

it('marks sends that failed and dead letters as errors, with their codes', async () => {
  const { sandbox, producer, startHere } = await openTraced();
  await startHere(ON);
  const [gone, good] = [makeDevice('apns'), makeDevice('fcm')];
  sandbox.setAnswers([{ token: gone.token, reason: 'Unregistered' }]);
  const dead = makeNotification({ recipientId: 'teacher-1', devices: [gone] });
  const half = makeNotification({ recipientId: 'teacher-2', devices: [gone, good] });
  await producer.enqueueMany([dead, half]);
  const [died, delivered] = [await lastPassOf(dead.id), await lastPassOf(half.id)];
  expect(died.status).toEqual({ code: SpanStatusCode.ERROR, message: 'unregistered' });
  expect(died.attributes).toMatchObject({
    'pushpacer.result': 'dead-lettered',
    'pushpacer.reason': 'unregistered',
    'error.type': 'unregistered',
  });
  expect(delivered.status.code).toBe(SpanStatusCode.UNSET);
  const sends = childrenOf(delivered).filter(({ kind }) => kind === SpanKind.CLIENT);
  expect(sends.map(({ attributes }) => attributes['http.response.status_code']).toSorted()).toEqual([200, 410]);
  const failed = sends.find(({ status }) => status.code === SpanStatusCode.ERROR);
  expect(failed?.attributes).toMatchObject({ 'error.type': 'Unregistered', 'pushpacer.device': 'apns#0' });
  expect(enqueueSpans().map(({ attributes }) => attributes['messaging.batch.message_count'])).toEqual([2]);
});

it('has nothing private in any span', async () => {
  const { sandbox, producer, startHere } = await openTraced();
  await startHere(ON);
  const server = sandbox.env()['WEBPUSH_ORIGINS'] ?? '';
  const devices: Device[] = PLATFORMS.map((platform) => makeDevice(platform, server));
  const secret = {
    recipientId: 'recipient-that-is-private',
    alert: { title: 'Title that is private', body: 'Body that is private' },
    data: { key: 'Data that is private' },
  };
  const sent = makeNotification({ ...secret, devices });
  await producer.enqueue(sent);
  const sends = childrenOf(await lastPassOf(sent.id)).filter(({ kind }) => kind === SpanKind.CLIENT);
  expect(sends.map(({ attributes }) => attributes['pushpacer.platform']).toSorted()).toEqual(PLATFORMS.toSorted());
  for (const { attributes } of sends) expect(attributes['url.full']).toMatch(/^https:/);

  const spans = exporter.getFinishedSpans().map(({ name, attributes, links, events, status }) => {
    return { name, attributes, status, links: links.map((link) => link.attributes), events };
  });
  const written = decodeURIComponent(JSON.stringify(spans)).toLowerCase();
  const secrets = devices.flatMap((device) => {
    if (device.platform === 'webpush')
      return [new URL(device.endpoint).pathname.slice(1), ...Object.values(device.keys)];
    return [tokenOf(device)];
  });
  expect(secrets).toHaveLength(PLATFORMS.length + 2);
  for (const secret of [...secrets, 'that is private', 'that-is-private']) {
    expect(written).not.toContain(secret.toLowerCase());
  }
});

it('notes the trace in the job and in its dead letter, and nothing where it is off', async () => {
  const { queue, deadQueue, prefix, producer, startHere, sandbox } = await openTraced();
  const plain = createProducer({ ...testTarget(), prefix });
  const [traced, alone] = [
    makeNotification({ recipientId: 'teacher-1' }),
    makeNotification({ recipientId: 'teacher-2' }),
  ];
  await producer.as('timetable').enqueue(traced);
  await plain.enqueue(alone);
  await plain.close();
  const [span] = enqueueSpans();
  const { traceId = '', spanId = '' } = span?.spanContext() ?? {};
  const [job, other] = await Promise.all([queue.getJob(traced.id), queue.getJob(alone.id)]);
  const traceparent = `00-${traceId}-${spanId}-01`;
  expect(job?.opts).toMatchObject({ traceparent, enqueuedBy: 'timetable' });
  expect(job?.data).toEqual(traced);
  expect(other?.opts).not.toHaveProperty('traceparent');

  sandbox.setAnswers([{ reason: 'BadTopic' }]);
  await startHere(ON);
  await waitFor(async () => expect(await deadQueue.getJob(traced.id)).toBeDefined());
  const letter = (await deadQueue.getJob(traced.id))?.data as { story?: object };
  expect(letter.story).toMatchObject({ traceparent });
});

it('goes on with the trace of a request to the HTTP API', async () => {
  context.setGlobalContextManager(contextManager());
  vi.stubEnv('OTEL_TRACES_EXPORTER', 'none');
  onTestFinished(() => {
    context.disable();
    vi.unstubAllEnvs();
  });
  const api = await openApi();
  const [traceId, spanId] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'];
  const headers = { traceparent: `00-${traceId}-${spanId}-01`, tracestate: 'vendor=value' };
  const traced = makeNotification();
  expect((await api.call('POST', '/v1/notifications', { body: traced, headers })).status).toBe(202);
  const [span] = enqueueSpans();
  expect(span?.spanContext().traceId).toBe(traceId);
  expect(span?.parentSpanContext).toMatchObject({ spanId, isRemote: true });
  expect((await api.queue.getJob(traced.id))?.opts).toMatchObject({
    traceparent: `00-${traceId}-${span?.spanContext().spanId}-01`,
    tracestate: 'vendor=value',
  });

  const bad = { traceparent: 'all of them', tracestate: 'x'.repeat(1_000) };
  expect((await api.call('POST', '/v1/notifications', { body: makeNotification(), headers: bad })).status).toBe(202);
  expect(enqueueSpans()[1]?.parentSpanContext).toBeUndefined();
});

/** As the SDK for Node has it. */
function contextManager(): ContextManager {
  const storage = new AsyncLocalStorage<Context>();
  const manager: ContextManager = {
    active: () => storage.getStore() ?? ROOT_CONTEXT,
    with: (active, work, self, ...args) => storage.run(active, () => work.call(self as never, ...args)),
    bind: (_, target) => target,
    enable: () => manager,
    disable: () => manager,
  };
  return manager;
}

it('takes any variable of OpenTelemetry for the wish, but not those that Kubernetes sets', () => {
  expect(wantsTraces({ PATH: '/bin', OTEL_SERVICE_NAME: '' })).toBe(false);
  expect(wantsTraces({ OTEL_SERVICE_NAME: 'push' })).toBe(true);
  expect(wantsTraces({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' })).toBe(true);
  expect(wantsTraces({ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318', OTEL_SDK_DISABLED: 'TRUE' })).toBe(false);
  expect(wantsTraces({ OTEL_PUSHPACER_PARENT: 'false' })).toBe(false);
  const ofServices = {
    OTEL_COLLECTOR_SERVICE_HOST: '10.0.0.1',
    OTEL_COLLECTOR_SERVICE_PORT_OTLP: '4317',
    OTEL_COLLECTOR_PORT: 'tcp://10.0.0.1:4317',
    OTEL_COLLECTOR_PORT_4317_TCP_ADDR: '10.0.0.1',
  };
  expect(wantsTraces(ofServices)).toBe(false);
  expect(wantsTraces({}, true)).toBe(true);
  expect(wantsTraces({ OTEL_SERVICE_NAME: 'push' }, false)).toBe(false);
});

it('refuses an option of a producer that is no yes or no', () => {
  expect(() => createProducer({ tracing: 'yes' as never })).toThrow('tracing: expected true or false');
});
