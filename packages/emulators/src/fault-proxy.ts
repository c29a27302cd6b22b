import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { CallLog, type LoggedCall } from './call-log.ts';
import { jsonAnswer, withJson, type ProxyAnswer, type ProxyRequest } from './exchange.ts';
import { FaultPlan, NO_ANSWER, type Fault, type FaultedCall, type FaultWhen, type PlannedFault } from './fault-plan.ts';
import { listen } from './listen.ts';
import { Timetable, type EmulatorTime } from './timetable.ts';
import { Upstream } from './upstream.ts';

/** Stands between clients and an HTTP server. Without a planned fault, requests and answers pass unchanged. */
export interface FaultProxy {
  /** What clients use. */
  readonly endpoint: string;
  /** The server behind it: what a client uses that no fault shall befall. */
  readonly target: string;
  /**
   * Plans a fault for calls of one operation (`'*'` = any); of several that fit a call, the one planned first that is not used up
   * is taken.
   *
   * @example
   * const lost = faults.on('DeleteMessageBatch', kinds.dropAnswer(), { nth: 2 });
   * // ... after the test: lost.hits is 1, or the fault was never met
   */
  on(operation: string, fault: Fault, when?: FaultWhen): PlannedFault;
  /** How many calls of an operation (of all, without one) came in so far. */
  calls(operation?: string): number;
  /** The last calls, oldest first: at least the last 10,000. */
  readonly log: readonly LoggedCall[];
  /**
   * The network is cut: connections end and no new one is accepted (`reset`), or everything sent is lost and nothing says so (`silent`).
   * What the server has got already is applied.
   */
  cut(how?: 'reset' | 'silent'): void;
  /** The network is back. Connections from the time of a silent cut end now. */
  restore(): void;
  /** Existing connections end, new ones are accepted. */
  dropConnections(): void;
  /** From now on the `Date` of answers is ahead of the server's time by so many milliseconds. */
  serviceClock(offsetMs: number): void;
  /** Forgets planned faults, log and counts; the network is whole and the service's clock right. */
  reset(): void;
  /** Ends every connection. What hangs is given up. */
  close(): Promise<void>;
}

/** How to stand before a server. */
export interface FaultProxyOptions {
  /** On 127.0.0.1; default a free one. */
  readonly port?: number;
  /** Delays of faults, and the `Date` of answers, go by it; without it by the machine's clock. A test that moves it calls `settle` of the emulator. */
  readonly time?: EmulatorTime;
  /** The name of a request's operation; default what follows the dot of `X-Amz-Target`, else method and path. */
  readonly operationOf?: (request: Omit<ProxyRequest, 'operation'>) => string;
}

/** Rules of a service that its server lacks: between the faults and the server. */
export type ServiceRules = (
  request: ProxyRequest,
  forward: (request: ProxyRequest) => Promise<ProxyAnswer>,
) => Promise<ProxyAnswer>;

/** What an emulator adds to its proxy. */
interface ProxyParts extends FaultProxyOptions {
  readonly rules?: (endpoint: string) => ServiceRules;
  /** Before each request to the server; `undefined` = nothing to wait for. */
  readonly beforeSend?: () => Promise<void> | undefined;
}

/** Starts a fault proxy before `target`, such as `http://127.0.0.1:4566`. Rejects when the port is taken. */
export async function faultProxy(target: string, options: FaultProxyOptions = {}): Promise<FaultProxy> {
  return HttpFaultProxy.start(target, options);
}

export class HttpFaultProxy implements FaultProxy {
  endpoint = '';
  readonly timetable: Timetable;
  readonly #parts: ProxyParts;
  readonly #upstream: Upstream;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #plan = new FaultPlan();
  readonly #log = new CallLog();
  #rules: ServiceRules = (request, forward) => forward(request);
  #link: 'whole' | 'reset' | 'silent' = 'whole';
  #clockOffsetMs = 0;
  #open = 0;
  #held = 0;
  #activity = 0;

  private constructor(target: string, parts: ProxyParts) {
    this.#parts = parts;
    this.#upstream = new Upstream(target);
    this.timetable = new Timetable(parts.time);
    this.#server = createServer((request, response) => void this.#serve(request, response));
    // The only connections that end are those that a fault ends.
    Object.assign(this.#server, { keepAliveTimeout: 0, headersTimeout: 0, requestTimeout: 0 });
    this.#server.on('connection', (socket) => this.#accept(socket));
  }

  static async start(target: string, parts: ProxyParts): Promise<HttpFaultProxy> {
    const proxy = new HttpFaultProxy(target, parts);
    const port = await listen(proxy.#server, parts.port ?? 0);
    proxy.endpoint = `http://127.0.0.1:${port}`;
    if (parts.rules) proxy.#rules = parts.rules(proxy.endpoint);
    return proxy;
  }

  get target(): string {
    return this.#upstream.target;
  }

  get log(): readonly LoggedCall[] {
    return this.#log.entries;
  }

  /** Requests here that neither have their answer nor are held by a fault. */
  get busy(): number {
    return this.#open - this.#held;
  }

  /** Changes whenever a request comes, goes, or is held. */
  get activity(): number {
    return this.#activity;
  }

  on(operation: string, fault: Fault, when?: FaultWhen): PlannedFault {
    return this.#plan.on(operation, fault, when);
  }

  calls(operation?: string): number {
    return this.#log.count(operation);
  }

  cut(how: 'reset' | 'silent' = 'reset'): void {
    this.#link = how;
    if (how === 'reset') this.dropConnections();
  }

  restore(): void {
    const before = this.#link;
    this.#link = 'whole';
    if (before === 'silent') this.dropConnections();
  }

  dropConnections(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  serviceClock(offsetMs: number): void {
    this.#clockOffsetMs = offsetMs;
  }

  reset(): void {
    this.#plan.reset();
    this.#log.reset();
    this.restore();
    this.#clockOffsetMs = 0;
  }

  async close(): Promise<void> {
    this.timetable.close();
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.dropConnections();
    this.#upstream.close();
    await closed;
  }

  /** A call of our own at the server, under its rules; neither counted nor faulty. */
  async send(request: ProxyRequest): Promise<ProxyAnswer> {
    return this.#rules(request, async (given) => {
      await this.#parts.beforeSend?.();
      return this.#upstream.send(given);
    });
  }

  #accept(socket: Socket): void {
    if (this.#link === 'reset') {
      socket.destroy();
      return;
    }
    socket.setNoDelay(true);
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController();
    // Always aborts in the end; once the answer is out nobody listens.
    response.on('close', () => gone.abort(new Error('the client has gone')));
    response.on('error', () => undefined);
    this.#count(1, 0);
    let entry: ReturnType<CallLog['add']> | undefined;
    try {
      const request = await this.#read(incoming);
      if (!request) return;
      if (this.#link === 'silent') await this.#hold(hanging(gone.signal));
      const fault = this.#plan.choose(request);
      entry = this.#log.add(request, this.timetable.now(), fault !== undefined);
      const answer = await (fault ? fault(this.#call(request, gone.signal)) : this.send(request));
      entry.status = await this.#answer(response, answer);
    } catch (error) {
      if (entry) entry.status = gone.signal.aborted ? 'none' : 502;
      if (gone.signal.aborted) return;
      const message = error instanceof Error ? error.message : String(error);
      await this.#answer(
        response,
        jsonAnswer({ __type: 'BadGateway', message: `the proxy could not answer: ${message}` }, 502),
      );
    } finally {
      this.#count(-1, 0);
    }
  }

  /** Undefined when the client left before it had sent everything. */
  async #read(incoming: IncomingMessage): Promise<ProxyRequest | undefined> {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of incoming) chunks.push(chunk as Buffer);
    } catch {
      return undefined;
    }
    const request = withJson({
      method: incoming.method ?? 'GET',
      path: incoming.url ?? '/',
      headers: incoming.headers,
      body: Buffer.concat(chunks),
    });
    return Object.assign(request, { operation: (this.#parts.operationOf ?? awsOperation)(request) });
  }

  async #answer(response: ServerResponse, answer: ProxyAnswer | typeof NO_ANSWER): Promise<number | 'none'> {
    if (this.#link === 'silent') return 'none';
    if (answer === NO_ANSWER || response.destroyed) {
      response.socket?.destroy();
      return 'none';
    }
    response.writeHead(answer.status, {
      ...answer.headers,
      'content-length': answer.body.length,
      ...this.#date(answer),
    } as Record<string, string | number | string[]>);
    await new Promise<void>((resolve) => {
      response.once('close', resolve);
      response.end(answer.body, resolve);
    });
    return answer.status;
  }

  /** Node caches what it writes as `Date`, past any clock of ours. */
  #date(answer: ProxyAnswer): { readonly date?: string } {
    const said = answer.headers['date'];
    const { time } = this.#parts;
    if (!time && this.#clockOffsetMs === 0 && typeof said === 'string') return {};
    const now = time || typeof said !== 'string' ? this.timetable.now() : Date.parse(said);
    return { date: new Date(now + this.#clockOffsetMs).toUTCString() };
  }

  #call(request: ProxyRequest, signal: AbortSignal): FaultedCall {
    return {
      request,
      signal,
      apply: (given = request) => this.send(given),
      sleep: (ms, until) => this.#hold(this.#sleep(ms, until)),
      hang: () => this.#hold(hanging(signal)),
      later: (afterMs, work) => {
        this.timetable.after(afterMs, () => {
          this.#count(1, 0);
          void work().then(
            () => this.#count(-1, 0),
            () => this.#count(-1, 0),
          );
        });
      },
    };
  }

  async #hold<Value>(wait: Promise<Value>): Promise<Value> {
    this.#count(0, 1);
    try {
      return await wait;
    } finally {
      this.#count(0, -1);
    }
  }

  #sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const stop = (): void => {
        cancel();
        reject(signal?.reason as Error);
      };
      const cancel = this.timetable.after(ms, () => {
        signal?.removeEventListener('abort', stop);
        resolve();
      });
      if (signal?.aborted) stop();
      else signal?.addEventListener('abort', stop, { once: true });
    });
  }

  #count(open: number, held: number): void {
    this.#open += open;
    this.#held += held;
    this.#activity++;
  }
}

function hanging(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const stop = (): void => reject(signal.reason as Error);
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
}

function awsOperation(request: Omit<ProxyRequest, 'operation'>): string {
  const target = request.headers['x-amz-target'];
  return typeof target === 'string'
    ? target.slice(target.lastIndexOf('.') + 1)
    : `${request.method} ${request.path.split('?')[0]}`;
}
