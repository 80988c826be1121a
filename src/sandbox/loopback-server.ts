import { isIPv6 } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Server } from 'node:tls';
import type { Rule } from '../domain/limits.ts';
import { AnswerBook, isAccepted, type Accept, type Answer, type Rate, type Refuse, type Reset } from './answers.ts';
import type { Certificate } from './certificates.ts';
import { Connections, type Peer } from './connections.ts';
import { DeviceQuota } from './device-quota.ts';
import type { Journal, JournalEntry } from './journal.ts';

/** What both loopback providers need. */
export interface LoopbackOptions {
  readonly certificate: Certificate;
  readonly journal: Journal;
  /** Numbers from 0 up to 1, for the rates. */
  readonly random: () => number;
  /** Epoch milliseconds; judges the age of credentials. */
  readonly now: () => number;
}

/** How many of what a server has seen since it started. */
export interface Counts {
  /** Requests whose headers arrived, whatever became of them. */
  readonly requests: number;
  /** Alerts that devices got. */
  readonly accepted: number;
  /** TCP connections, the refused handshakes too. */
  readonly connections: number;
}

/** One request in the words of its protocol: the three ways to end it. */
export interface Exchange {
  readonly peer: Peer;
  accept(answer: Accept): void;
  refuse(answer: Refuse): void;
  reset(scope: NonNullable<Reset['scope']>): void;
}

/** What is known of a request before an answer is chosen. */
export type Received = Omit<JournalEntry, 'platform' | 'accepted' | 'status' | 'reason'>;

/** What both loopback providers are: a TLS server whose answers can be scripted and whose alerts are journalled. */
export abstract class LoopbackServer {
  /** The service's name in the journal. */
  abstract readonly platform: JournalEntry['platform'];
  /** What it answers to a device over its quota. */
  protected abstract readonly overQuota: Refuse;

  protected readonly connections: Connections;
  protected readonly now: () => number;
  readonly #server: Server;
  readonly #journal: Journal;
  readonly #answers: AnswerBook;
  readonly #certificate: Certificate;
  readonly #closing = new AbortController();
  #quota: DeviceQuota | undefined;
  #requests = 0;
  #accepted = 0;
  #cuts = 0;
  #port = 0;
  #host = '';
  #url = '';

  protected constructor(server: Server, { certificate, journal, random, now }: LoopbackOptions) {
    this.#server = server;
    this.#certificate = certificate;
    this.#journal = journal;
    this.#answers = new AnswerBook(random);
    this.now = now;
    this.connections = new Connections(server);
  }

  /** `https://127.0.0.1:41873` */
  get url(): string {
    return this.#url;
  }

  get counts(): Counts {
    return { requests: this.#requests, accepted: this.#accepted, connections: this.connections.opened };
  }

  /** TCP connections that are open now. */
  get openConnections(): number {
    return this.connections.open;
  }

  /** The answers to the next requests for this token, one each; then the rates and the default hold again. */
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

  /** At most this many alerts a device in any such window, the rest is refused; undefined ends it. */
  limitDevices(rule: Rule | undefined): void {
    this.#quota = rule && new DeviceQuota(rule);
  }

  /** Resets every connection, as a failing network does. */
  dropConnections(): void {
    this.connections.resetAll();
  }

  /** Takes no connections any more, so that they are refused, and cuts those that stand. */
  async down(): Promise<void> {
    if (!this.#server.listening) return;
    const closed = new Promise((resolve) => this.#server.once('close', resolve));
    this.#server.close();
    this.connections.closeAll();
    await closed;
  }

  /** Listens again where it listened before. */
  async up(): Promise<void> {
    if (!this.#server.listening) await this.#listen(this.#port, this.#host);
  }

  /** The connections that stand go silent both ways, and nobody closes them; new ones are served. */
  freeze(): void {
    this.connections.freezeAll();
  }

  /** What was said meanwhile on frozen connections arrives. */
  thaw(): void {
    this.connections.thawAll();
  }

  /** New connections wait for so many milliseconds until their handshake is answered; 0 ends it. */
  slowHandshakes(waitMs: number): void {
    this.connections.handshakeDelayMs = waitMs;
  }

  /** The next requests are cut off with their connection when their headers have arrived, before anything else has. */
  cutRequests(count: number): void {
    this.#cuts = count;
  }

  /** What new connections are shown; undefined is the one that it started with. Those that stand are left alone. */
  useCertificate(certificate: Certificate = this.#certificate): void {
    this.#server.setSecureContext({ ...certificate, minVersion: 'TLSv1.2' });
  }

  /** Starts to listen; port 0 takes any free one. `advertised` is the name that clients are told. */
  async listen(port: number, host: string, advertised: string): Promise<void> {
    await this.#listen(port, host);
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the server listens on no port');
    this.#port = address.port;
    this.#host = host;
    this.#url = `https://${isIPv6(advertised) ? `[${advertised}]` : advertised}:${address.port}`;
  }

  /** Stops at once: requests that are under way get no answer. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.down();
  }

  /** How a token is written in scripts and in the journal. */
  protected tokenKey(token: string): string {
    return token;
  }

  /** Counts a request; to be called as soon as its headers are there. Returns its number, from 1. */
  protected countRequest(): number {
    this.#requests += 1;
    return this.#requests;
  }

  /** Whether this request is one to be cut off, and then its connection has been. */
  protected cut(peer: Peer): boolean {
    if (this.#cuts === 0) return false;
    this.#cuts -= 1;
    this.connections.reset(peer);
    return true;
  }

  /** Refuses a request that is not in order; no script is consumed. */
  protected refuse(received: Received, exchange: Exchange, answer: Refuse): void {
    this.#record(received, answer);
    exchange.refuse(answer);
  }

  /** Answers a request that is in order, by the quota, the token's script, the rates or the default. */
  protected async answer(received: Received, exchange: Exchange): Promise<Answer> {
    const hasRoom = this.#quota?.take(received.token, received.at) ?? true;
    const answer = hasRoom ? this.#answers.next(received.token) : this.overQuota;
    this.#record(received, answer);
    if (answer.kind === 'hang') return answer;
    if (answer.delayMs !== undefined && !(await this.#wait(answer.delayMs))) return answer;
    await this.connections.thawed(exchange.peer);
    if (answer.kind === 'accept') exchange.accept(answer);
    else if (answer.kind === 'refuse') exchange.refuse(answer);
    else exchange.reset(answer.scope ?? 'connection');
    return answer;
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

  #record(received: Received, answer: Answer): void {
    const accepted = isAccepted(answer);
    if (accepted) this.#accepted += 1;
    this.#journal.record({ ...received, platform: this.platform, accepted, ...said(answer) });
  }

  /** False where the server closes meanwhile. */
  async #wait(delayMs: number): Promise<boolean> {
    return delay(delayMs, true, { signal: this.#closing.signal }).catch(() => false);
  }
}

function said(answer: Answer): Pick<JournalEntry, 'status' | 'reason'> {
  if (answer.kind === 'accept') return { status: 200 };
  if (answer.kind === 'refuse') return { status: answer.status, reason: answer.reason };
  return { reason: answer.kind };
}
