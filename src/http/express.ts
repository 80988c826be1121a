import type { IncomingHttpHeaders } from 'node:http';
import { decider, whilePresent, type Closable, type HttpLimitOptions, PROBLEM_TYPE, type Refusal } from './limit.ts';

/** The fields of a request that a `key` function usually reads. A function that takes Express's own `Request` fits too. */
export interface ExpressRequestLike {
  /** The header fields, by their names in lower case. */
  readonly headers: IncomingHttpHeaders;
  /** The client's address; the setting `trust proxy` decides which one. */
  readonly ip?: string | undefined;
  /** `GET` */
  readonly method: string;
  /** The path with its query: `/messages?to=7`. */
  readonly url: string;
  /** The value of one header field. */
  get(name: string): string | undefined;
}

/** The part of a response that is used; responses of Express, connect and node:http have it. */
export interface ConnectResponse extends Closable {
  /** The status that is going to be sent. */
  statusCode: number;
  /** Sets one header field. */
  setHeader(name: string, value: string): unknown;
  /** Sends the body and ends the response. */
  end(body: string): unknown;
}

/** How Express limits requests: the options of `httpLimit`, and how to answer a refused request. */
export interface ExpressLimitOptions<Request, Response> extends HttpLimitOptions<Request> {
  /** Answers a refused request in place of the problem document; status and header fields are set already. */
  readonly refuse?: (request: Request, response: Response, refusal: Refusal) => unknown;
}

/** What `expressLimit` makes. It calls `next` without an error if the request goes on, and with an error if the limiter failed. */
export type ConnectMiddleware<Request, Response> = (
  request: Request,
  response: Response,
  next: (error?: unknown) => void,
) => void;

/** Middleware of the form `(request, response, next)`, for Express or connect, or to call by hand in node:http. */
export function expressLimit<Request = ExpressRequestLike, Response extends ConnectResponse = ConnectResponse>(
  options: ExpressLimitOptions<Request, Response>,
): ConnectMiddleware<Request, Response> {
  const decide = decider(options, { refuse: true });
  const { refuse = sendProblem } = options;

  /** Whether the request goes on. */
  async function limit(request: Request, response: Response): Promise<boolean> {
    const decision = await whilePresent(response, (signal) => decide(request, signal));
    if (decision.kind === 'gone') return false;
    for (const [name, value] of Object.entries(decision.headers)) response.setHeader(name, value);
    if (decision.kind === 'allowed') return true;
    response.statusCode = decision.status;
    await refuse(request, response, decision);
    return false;
  }

  return (request, response, next) => {
    // `next` gets only the errors of `limit`. An error thrown inside `next()` belongs to the next middleware.
    void limit(request, response).then(
      (goesOn) => {
        if (goesOn) next();
      },
      (reason: unknown) => {
        next(asError(reason));
      },
    );
  };
}

/** An Error for any reason: `next` does not take every value as an error, and with undefined or 'route' the request would go on. */
function asError(reason: unknown): Error {
  return reason instanceof Error
    ? reason
    : new Error('the limiter failed; the request was not let through', { cause: reason });
}

function sendProblem(_request: unknown, response: ConnectResponse, { problem }: Refusal): void {
  response.setHeader('Content-Type', PROBLEM_TYPE);
  response.end(JSON.stringify(problem));
}
