import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { CallLog, type LoggedCall } from './call-log.ts';
import { jsonAnswer, type ProxyAnswer, type ProxyRequest } from './exchange.ts';
import { EmulatorError } from './emulator-error.ts';
import { FaultPlan, NO_ANSWER, type Fault, type FaultWhen, type PlannedFault } from './fault-plan.ts';
import type { FaultProxy, FaultProxyOptions } from './fault-proxy.ts';
import { HeldCalls } from './held-calls.ts';
import { listen } from './listen.ts';
import { readRequest } from './read-request.ts';
import { Timetable } from './timetable.ts';
import { Upstream } from './upstream.ts';

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
  readonly #calls: HeldCalls;
  #rules: ServiceRules = (request, forward) => forward(request);
  #link: 'whole' | 'reset' | 'silent' = 'whole';
  #clockOffsetMs = 0;

  private constructor(target: string, parts: ProxyParts) {
    this.#parts = parts;
    this.#upstream = new Upstream(target);
    this.timetable = new Timetable(parts.time);
    this.#calls = new HeldCalls(this.timetable);
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
    return this.#calls.busy;
  }

  /** Requests that a fault holds. */
  get held(): number {
    return this.#calls.held;
  }

  /** Changes whenever a request comes, goes, or is held. */
  get activity(): number {
    return this.#calls.activity;
  }

  on(operation: string, fault: Fault, when?: FaultWhen): PlannedFault {
    const { operations } = this.#parts;
    if (operations && operation !== '*' && !operations.includes(operation)) {
      const alike = operations.find((name) => name.toLowerCase() === operation.toLowerCase());
      const remedy = alike ? `write '${alike}'` : `write '*' for any, or one of ${operations.join(', ')}`;
      throw new EmulatorError(
        'operation',
        `the service has no '${operation}', so the fault would never be met`,
        remedy,
      );
    }
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
    let gone = false;
    response.on('close', () => (gone = true));
    response.on('error', () => undefined);
    let entry: ReturnType<CallLog['add']> | undefined;
    let counted = false;
    try {
      const request = await readRequest(incoming, this.#parts.operationOf);
      if (!request) return;
      this.#calls.count(1);
      counted = true;
      if (this.#link === 'silent') await this.#calls.hang(untilGone(response));
      const fault = this.#plan.choose(request);
      entry = this.#log.add(request, this.timetable.now(), fault !== undefined);
      const answer = await (fault
        ? fault(this.#calls.call(request, untilGone(response), (given) => this.send(given)))
        : this.send(request));
      entry.status = await this.#answer(response, answer);
    } catch (error) {
      if (entry) entry.status = gone ? 'none' : 502;
      if (gone) return;
      const message = `the proxy could not answer: ${error instanceof Error ? error.message : String(error)}`;
      await this.#answer(response, jsonAnswer({ __type: 'BadGateway', message }, 502));
    } finally {
      if (counted) this.#calls.count(-1);
    }
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
}

/** Aborts when the client has gone, or has its answer. */
function untilGone(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  const abort = (): void => controller.abort(new Error('the client has gone'));
  if (response.destroyed) abort();
  else response.once('close', abort);
  return controller.signal;
}
