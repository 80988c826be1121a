import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

/** A span as OTLP over HTTP has it in JSON; the fields that tests look at. */
export interface OtlpSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  /** Of the process. */
  readonly resource: Readonly<Record<string, unknown>>;
}

interface Collector {
  /** The variables that make a process send its spans here. */
  readonly env: Readonly<Record<string, string>>;
  readonly spans: readonly OtlpSpan[];
  /** The paths of the requests. */
  readonly paths: readonly string[];
}

interface Written extends Omit<OtlpSpan, 'attributes' | 'resource' | 'links'> {
  readonly attributes: readonly Attribute[];
  readonly links?: OtlpSpan['links'];
}
interface Attribute {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}
interface Body {
  readonly resourceSpans?: readonly {
    readonly resource?: { readonly attributes: readonly Attribute[] };
    readonly scopeSpans: readonly { readonly spans: readonly Written[] }[];
  }[];
}

/** A collector of traces on the loopback, closed when the test ends. */
export async function openCollector(): Promise<Collector> {
  const spans: OtlpSpan[] = [];
  const paths: string[] = [];
  const server = createServer((request, response) => {
    let text = '';
    paths.push(request.url ?? '');
    request.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    request.once('end', () => {
      if (request.url === '/v1/traces') spans.push(...spansOf(JSON.parse(text) as Body));
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const env = {
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_BSP_SCHEDULE_DELAY: '200',
  };
  return { env, spans, paths };
}

function spansOf({ resourceSpans = [] }: Body): OtlpSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans
      .flatMap((scope) => scope.spans)
      .map((span) => ({
        ...span,
        links: span.links ?? [],
        attributes: valuesOf(span.attributes),
        resource: valuesOf(resource?.attributes ?? []),
      })),
  );
}

/** `{ stringValue: 'x' }` → `'x'` */
function valuesOf(attributes: readonly Attribute[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}
