import type { IncomingHttpHeaders } from 'node:http';
import { httpLimit, whilePresent, type Closable, type HttpLimitOptions } from './limit.ts';
import { PROBLEM_TYPE, type Refusal } from './problem.ts';

/** The fields of a request that a `key` mostly uses. A function that takes Fastify's own `FastifyRequest` fits too. */
export interface FastifyRequestLike {
  readonly headers: IncomingHttpHeaders;
  readonly ip: string;
  readonly method: string;
  readonly url: string;
}

/** The part of Fastify's reply that is used. */
export interface FastifyReplyLike {
  readonly raw: Closable;
  code(status: number): unknown;
  header(name: string, value: string): unknown;
  send(payload: unknown): unknown;
  hijack(): unknown;
}

export interface FastifyLimitOptions<Request, Reply> extends HttpLimitOptions<Request> {
  /**
   * Answers a refused request in place of the problem document; status and header fields are set already. It must send a
   * reply, or throw an error for Fastify's error handler.
   */
  readonly refuse?: (request: Request, reply: Reply, refusal: Refusal) => unknown;
}

/**
 * A hook for `onRequest` (of the application, a plugin or one route), or for a later hook if the key needs the body. The
 * types come from `key` and `refuse`: Fastify's hooks have too many type parameters for TypeScript to infer them.
 */
export function fastifyLimit<Request = FastifyRequestLike, Reply extends FastifyReplyLike = FastifyReplyLike>(
  options: FastifyLimitOptions<Request, Reply>,
): (request: NoInfer<Request>, reply: NoInfer<Reply>) => Promise<unknown> {
  const decide = httpLimit(options);
  const { refuse = sendProblem } = options;
  return async (request, reply) => {
    const decision = await whilePresent(reply.raw, (signal) => decide(request, signal));
    if (decision.kind === 'gone') return reply.hijack(); // the client has left: no answer, and no handler may run
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
