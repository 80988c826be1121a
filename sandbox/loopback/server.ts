import type { Http2SecureServer, IncomingHttpHeaders, ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import { isIPv6 } from 'node:net';
import type { Server } from 'node:tls';
import type { AnswerRules } from '../answers.ts';
import { arrivalInstant, type Journal, type JournalEntry } from '../journal.ts';
import { AnswerQueue, isAccepted, type Answer, type Rate, type Refuse } from './answers.ts';
import type { Certificate } from './certificates.ts';
import { Connections, type Peer, type Http2Session } from './connections.ts';
import type { Exchange } from './exchange.ts';
import { LateAnswers, type Timing } from './timing.ts';

/** What tests can set for the servers. */
export interface ServerOptions {
  /** Streams that an HTTP/2 connection may have at once. Default: as the real provider, 100 or 1,000. */
  readonly maxStreams?: number;
  /** How many channels an app may have at APNs. Default: 10,000. */
  readonly apnsMaxChannels?: number;
}

/** How the sandbox runs the loopback server of one provider. */
export interface ServerKind<Server extends LoopbackServer> {
  /** The provider's real host name. The certificate has it too, for clients that only use another address. */
  readonly host: string;
  readonly key: ServerKey;
  /** @param key PKCS#8 PEM */
  readonly create: (options: LoopbackOptions & ServerOptions, key: string) => Server;
  /** The variable that points a worker at the server's URL. */
  readonly urlVariable: string;
  /** The other variables that a worker needs. */
  readonly env: (files: WorkerFiles) => Readonly<Record<string, string>>;
}

/** The key by which the server knows its workers. It is kept for the next sandbox in the same folder. */
export interface ServerKey {
  /** The name of the file that a worker reads. */
  readonly file: string;
  /** PKCS#8 PEM. */
  readonly make: () => Promise<string>;
  /** For a file that has more than the key. */
  readonly format?: {
    /** @param url the server's */
    readonly write: (key: string, url: string) => string;
    readonly read: (text: string) => string;
  };
}

/** The paths of the files that a worker reads, absolute. */
interface WorkerFiles {
  readonly ca: string;
  /** The provider's key. */
  readonly key: string;
}

interface ListenerOptions {
  readonly certificate: Certificate;
  /** How long a new connection waits until its handshake is answered; milliseconds. */
  readonly handshakeMs: number;
}

/** The TCP and TLS part of a loopback provider: where it listens, and faults of its connections. */
class LoopbackListener {
  protected readonly connections: Connections;
  readonly #server: Server;
  readonly #certificate: Certificate;
  readonly #handshakeMs: number;
  #port = 0;
  #host = '';
  #url = '';

  protected constructor(server: Server, { certificate, handshakeMs }: ListenerOptions) {
    this.#server = server;
    this.#certificate = certificate;
    this.#handshakeMs = handshakeMs;
    this.connections = new Connections(server);
    this.slowHandshakes();
  }

  /** `https://127.0.0.1:41873` */
  get url(): string {
    return this.#url;
  }

  /** TCP connections that are open now. */
  get openConnections(): number {
    return this.connections.open;
  }

  /** Resets every connection, as a failing network does. */
  dropConnections(): void {
    this.connections.resetAll();
  }

  /** Refuses new connections, and closes the open ones. */
  async down(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = new Promise((resolve) => this.#server.once('close', resolve));
    this.#server.close();
    this.connections.closeAll();
    await closed;
  }

  /** Listens again on the same port. */
  async up(): Promise<void> {
    if (!this.#server.listening) await this.#listen(this.#port, this.#host);
  }

  /** How long new connections wait for the answer to their handshake, in milliseconds. Default: the server's usual wait. */
  slowHandshakes(waitMs: number = this.#handshakeMs): void {
    this.connections.handshakeDelayMs = waitMs;
  }

  /** The certificate for new connections; undefined for the one that the server started with. Open connections stay. */
  useCertificate(certificate: Certificate = this.#certificate): void {
    this.#server.setSecureContext({ ...certificate, minVersion: 'TLSv1.2' });
  }

  /** Starts to listen; port 0 takes any free one. `advertised` is the host name in `url`. */
  async listen(port: number, host: string, advertised: string): Promise<void> {
    await this.#listen(port, host);
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the server listens on no port');
    this.#port = address.port;
    this.#host = host;
    this.#url = `https://${isIPv6(advertised) ? `[${advertised}]` : advertised}:${address.port}`;
  }

  #listen(port: number, host: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, host, () => {
        this.#server.off('error', reject);
        resolve();
      });
    });
  }
}

/** What every loopback provider needs. */
export interface LoopbackOptions {
  readonly certificate: Certificate;
  readonly journal: Journal;
  /** The sandbox's script, for all providers. */
  readonly rules: AnswerRules;
  /** Numbers from 0 up to 1, for the rates. */
  readonly random: () => number;
  /** Epoch milliseconds; judges the age of credentials. */
  readonly now: () => number;
  /** How long answers, handshakes and idle connections take. */
  readonly timing: Timing;
}

/** What a server has counted since it started. */
export interface Counts {
  /** Requests whose headers arrived, with any answer or none. */
  readonly requests: number;
  /** Alerts that devices got. */
  readonly accepted: number;
  /** TCP connections, the refused handshakes too. */
  readonly connections: number;
}

/** What is known of a request before an answer is chosen. */
export type Received = Omit<JournalEntry, 'platform' | 'accepted' | 'status' | 'reason'>;

/** A request's stream, its headers in both of node:http2's forms, and when they arrived (the journal's `at`). */
export interface Http2Request {
  readonly stream: ServerHttp2Stream;
  readonly headers: IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly at: number;
}

/** The common part of all loopback providers: a TLS server with scripted answers, and a journal of the alerts. */
export abstract class LoopbackServer<Session extends Http2Session = Http2Session> extends LoopbackListener {
  /** The service's name in the journal. */
  abstract readonly platform: JournalEntry['platform'];
  /** The HTTP status of an acceptance. */
  protected readonly acceptedStatus: number = 200;
  /** GOAWAY's debug data to an idle connection. */
  protected abstract readonly idleDebugData: string;
  /** GOAWAY's debug data where no reason is given. */
  protected abstract readonly debugData: string;

  protected readonly now: () => number;
  protected readonly timing: Timing;
  readonly #journal: Journal;
  readonly #answers: AnswerQueue;
  readonly #sessions = new Set<Session>();
  readonly #late = new LateAnswers();
  #goAwayEvery: number | undefined;
  #requests = 0;
  #accepted = 0;
  #cuts = 0;

  protected constructor(server: Http2SecureServer, options: LoopbackOptions) {
    super(server, { certificate: options.certificate, handshakeMs: options.timing.handshakeMs });
    this.#journal = options.journal;
    this.#answers = new AnswerQueue(options.random, (token) =>
      options.rules.next(this.platform, (other) => this.tokenKey(other) === token),
    );
    this.now = options.now;
    this.timing = options.timing;
    server.on('session', (session) => {
      this.#serve(session);
    });
  }

  get counts(): Counts {
    return { requests: this.#requests, accepted: this.#accepted, connections: this.connections.opened };
  }

  /** The answers to the next requests for this token, one each; then the rates and the default apply again. */
  script(token: string, answers: readonly Answer[]): void {
    this.#answers.script(this.tokenKey(token), answers);
  }

  /** The answer to requests that neither a script nor the rates decide; undefined accepts them. */
  setDefault(answer: Answer | undefined): void {
    this.#answers.setDefault(answer);
  }

  /** Answers for shares of the requests that no script decides; an empty list ends it. Rejects a sum over 1. */
  setRates(rates: readonly Rate[]): void {
    this.#answers.setRates(rates);
  }

  /** Resets the connections of the next `count` requests as soon as their headers have arrived. */
  cutRequests(count: number): void {
    this.#cuts = count;
  }

  /** Every n-th request makes its HTTP/2 connection send a GOAWAY; undefined ends this. */
  goAwayEvery(requests: number | undefined): void {
    this.#goAwayEvery = requests;
  }

  /** Sends a GOAWAY on all HTTP/2 connections: streams that have begun are finished, later ones are refused. */
  goAway(debugData: string = this.debugData): void {
    for (const session of this.#sessions) session.goAway(debugData);
  }

  /** Closes the connections that carry no request now, in the way in which idle ones are closed. */
  closeIdle(): void {
    for (const session of this.#sessions) if (session.isIdle) session.goAway(this.idleDebugData);
  }

  /** Stops at once: requests that are under way get no answer. */
  async close(): Promise<void> {
    this.#late.close();
    await this.down();
  }

  /** What is kept for an HTTP/2 connection. */
  protected abstract openSession(session: ServerHttp2Session): Session;

  /** Takes a request whose headers have arrived over HTTP/2. */
  protected abstract handleHttp2(session: Session, request: Http2Request): void;

  /** How a token is written in scripts and in the journal. */
  protected tokenKey(token: string): string {
    return token;
  }

  /** The provider's word for a refusal, as the journal has it; undefined for an answer without one. */
  protected reasonOf({ reason }: Refuse): string | undefined {
    return reason;
  }

  /** Counts a request; call it as soon as the headers have arrived. Its number, from 1; undefined if it was cut off. */
  protected countRequest(peer: Peer): number | undefined {
    this.#requests += 1;
    if (this.#cuts === 0) return this.#requests;
    this.#cuts -= 1;
    this.connections.reset(peer);
    return undefined;
  }

  /** Refuses an invalid request; uses up no scripted answer. */
  protected refuse(received: Received, exchange: Exchange, answer: Refuse): void {
    this.#record(received, answer);
    this.#sendLater(exchange, answer);
  }

  /** Accepts without an alert and without a journal entry. */
  protected acceptUnseen(exchange: Exchange): void {
    this.#sendLater(exchange, { kind: 'accept' });
  }

  /** Chooses the answer to a valid request, by the token's own list, the script, the rates or the default. */
  protected answer(received: Received, exchange: Exchange): Answer {
    const answer = this.#answers.next(received.token);
    this.#record(received, answer);
    this.#sendLater(exchange, answer);
    return answer;
  }

  #serve(http2Session: ServerHttp2Session): void {
    const session = this.openSession(http2Session);
    this.#sessions.add(session);
    http2Session.once('close', () => this.#sessions.delete(session));
    http2Session.on('stream', (stream, headers, _flags, rawHeaders) => {
      const at = arrivalInstant();
      stream.on('error', () => undefined); // the client went away; the journal keeps the answer that was decided
      if (!session.begin(stream)) return;
      const count = this.countRequest(session.peer);
      if (count === undefined) return;
      if (this.#goAwayEvery !== undefined && count % this.#goAwayEvery === 0) session.goAway(this.debugData);
      this.handleHttp2(session, { stream, headers, rawHeaders, at });
    });
  }

  #said(answer: Answer): Pick<JournalEntry, 'status' | 'reason'> {
    if (answer.kind === 'accept') return { status: this.acceptedStatus };
    if (answer.kind === 'refuse') return { status: answer.status, reason: this.reasonOf(answer) };
    return { reason: answer.kind };
  }

  #record(received: Received, answer: Answer): void {
    const accepted = isAccepted(answer);
    if (accepted) this.#accepted += 1;
    this.#journal.record({ platform: this.platform, ...received, accepted, ...this.#said(answer) });
  }

  /** Sends after the latency; without latency at once and without a timer. */
  #sendLater(exchange: Exchange, answer: Answer): void {
    if (answer.kind === 'hang') return;
    const waitMs = answer.delayMs ?? this.timing.drawLatencyMs?.() ?? 0;
    if (waitMs === 0) this.#send(exchange, answer);
    else this.#late.after(waitMs, () => this.#send(exchange, answer));
  }

  #send(exchange: Exchange, answer: Exclude<Answer, { kind: 'hang' }>): void {
    if (answer.kind === 'accept') exchange.accept(answer);
    else if (answer.kind === 'refuse') exchange.refuse(answer);
    else exchange.reset(answer.scope ?? 'connection');
  }
}
