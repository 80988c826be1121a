import type { IncomingHttpHeaders } from 'node:http';
import { decider, whilePresent, type Closable, type HttpLimitOptions, PROBLEM_TYPE, type Refusal } from './limit.ts';

/** The fields of a request that a `key` function usually reads. A function that takes Fastify's own `FastifyRequest` fits too. */
export interface FastifyRequestLike {
  /** The header fields, by their names in lower case. */
  readonly headers: IncomingHttpHeaders;
  /** The client's address; the option `trustProxy` decides which one. */
  readonly ip: string;
  /** `GET` */
  readonly method: string;
  /** The path with its query: `/messages?to=7`. */
  readonly url: string;
}

/** The part of Fastify's reply that is used. */
export interface FastifyReplyLike {
  /** Node's own response. */
  readonly raw: Closable;
  /** Sets the status. */
  code(status: number): unknown;
  /** Sets one header field. */
  header(name: string, value: string): unknown;
  /** Sends the body. */
  send(payload: unknown): unknown;
  /** Tells Fastify that no reply will be sent. */
  hijack(): unknown;
}

/** How Fastify limits requests: the options of `httpLimit`, and how to answer a refused request. */
export interface FastifyLimitOptions<Request, Reply> extends HttpLimitOptions<Request> {
  /**
   * Answers a refused request in place of the problem document; status and header fields are set already. It must send a
   * reply, or throw an error for Fastify's error handler.
   */
  readonly refuse?: (request: Request, reply: Reply, refusal: Refusal) => unknown;
}

/**
 * A hook for `onRequest` (of the application, a plugin or one route), or for a later hook if the key needs the body. The types
 * come from `key` and `refuse`, because Fastify's hooks have too many type parameters for TypeScript to infer them.
 */
export function fastifyLimit<Request = FastifyRequestLike, Reply extends FastifyReplyLike = FastifyReplyLike>(
  options: FastifyLimitOptions<Request, Reply>,
): (request: NoInfer<Request>, reply: NoInfer<Reply>) => Promise<unknown> {
  const decide = decider(options, { refuse: true });
  const { refuse = sendProblem } = options;
  return async (request, reply) => {
    const decision = await whilePresent(reply.raw, (signal) => decide(request, signal));
    if (decision.kind === 'gone') return reply.hijack(); // the client has disconnected: no answer is sent, and no handler may run
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
