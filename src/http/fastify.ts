import type { IncomingHttpHeaders } from 'node:http';
import { httpLimit, whilePresent, type Closable, type HttpLimitOptions } from './limit.ts';
import { PROBLEM_TYPE, type Refusal } from './problem.ts';

/** What a key is mostly made of; a function that takes Fastify's own `FastifyRequest` is as good. */
export interface FastifyRequestLike {
  readonly headers: IncomingHttpHeaders;
  readonly ip: string;
  readonly method: string;
  readonly url: string;
}

/** What is used of Fastify's reply. */
export interface FastifyReplyLike {
  readonly raw: Closable;
  code(status: number): unknown;
  header(name: string, value: string): unknown;
  send(payload: unknown): unknown;
  hijack(): unknown;
}

export interface FastifyLimitOptions<Request, Reply> extends HttpLimitOptions<Request> {
  /**
   * Answers a refused request in place of the problem document; status and header fields are set already. It sends, or
   * throws what Fastify's error handler is to send.
   */
  readonly refuse?: (request: Request, reply: Reply, refusal: Refusal) => unknown;
}

/**
 * A hook for `onRequest` (of the application, a plugin or one route), or a later one where the key needs the body. The
 * types are what `key` and `refuse` say: Fastify's hooks have too many for TypeScript to find them out.
 */
export function fastifyLimit<Request = FastifyRequestLike, Reply extends FastifyReplyLike = FastifyReplyLike>(
  options: FastifyLimitOptions<Request, Reply>,
): (request: NoInfer<Request>, reply: NoInfer<Reply>) => Promise<unknown> {
  const decide = httpLimit(options);
  const { refuse = sendProblem } = options;
  return async (request, reply) => {
    const decision = await whilePresent(reply.raw, (signal) => decide(request, signal));
    if (decision.kind === 'gone') return reply.hijack(); // there is nobody to answer, and no handler may run
    for (const [name, value] of Object.entries(decision.headers)) reply.header(name, value);
    if (decision.kind === 'allowed') return undefined;
    reply.code(decision.status);
    await refuse(request, reply, decision);
    return reply;
  };
}

function sendProblem(_request: unknown, reply: FastifyReplyLike, { problem }: Refusal): void {
  reply.header('Content-Type', PROBLEM_TYPE);
  reply.send(JSON.stringify(problem));
}
