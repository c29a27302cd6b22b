import type { Clock } from '../clock.ts';
import type { BrokerErrorCode } from '../driver.ts';

/** The asynchronous methods of a driver: those a fault can befall. */
export type MethodOf<Driver> = {
  [Name in keyof Driver]-?: NonNullable<Driver[Name]> extends (...args: never[]) => Promise<unknown> ? Name : never;
}[keyof Driver] &
  string;

/** What a method of a driver is called with, the signal included. */
export type ArgsOf<Driver, Method extends keyof Driver> = Parameters<
  Extract<Driver[Method], (...args: never[]) => unknown>
>;

/** An error that a fault made up. A wrapped driver classifies it as `code`. */
export class InjectedError extends Error {
  override readonly name: string = 'InjectedError';
  readonly code: BrokerErrorCode;

  constructor(code: BrokerErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** One call on a wrapped driver, as a fault sees it. */
export interface FaultCall {
  readonly method: string;
  /** What the method was called with, without the signal. */
  readonly args: readonly unknown[];
  /** The caller's; never aborts where the method takes none. */
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** Makes the call on the driver itself, with the caller's arguments and signal unless others are given. */
  apply(args?: readonly unknown[], signal?: AbortSignal): Promise<unknown>;
  /** Calls another method of the driver itself. */
  other(method: string, args: readonly unknown[]): Promise<unknown>;
  /** Goes on after the caller has its answer; how that ended stands in the log as `late`. */
  later(afterMs: number, work: () => Promise<unknown>): void;
}

/** What befalls a call: it decides whether and when the call is applied, and what the caller is told. */
export type Fault = (call: FaultCall) => Promise<unknown>;

/** Which calls a fault befalls. */
export interface FaultWhen<Args extends readonly unknown[]> {
  /** The how-manieth call from now on, counting those that `when` accepts; default the first. */
  readonly nth?: number;
  /** How many calls in a row; default 1, `Infinity` = all from then on. */
  readonly times?: number;
  /** Only calls with such arguments. */
  readonly when?: (...args: Args) => boolean;
}

/** How something ended. */
export type Ended = { readonly value: unknown } | { readonly error: unknown };

/** One call in the log, by reference: `args` and `ended` hold what the driver was given and answered. */
export interface LoggedCall {
  readonly method: string;
  /** Without the signal. */
  readonly args: readonly unknown[];
  /** Monotonic milliseconds of the clock. */
  readonly at: number;
  /** Whether a fault befell it. */
  readonly faulty: boolean;
  /** What the caller was told; absent while the call is pending. */
  readonly ended?: Ended;
  /** What became of a call that was applied after its caller had given up. */
  readonly late?: Ended;
}

/** A fault that was planned. */
export interface PlannedFault {
  /** How many calls it befell so far. */
  readonly hits: number;
  /** No further call. */
  cancel(): void;
}

/**
 * A script of faults for one or several wrapped drivers, and the log of every call on them. The first planned fault that
 * applies to a call befalls it; calls that none applies to go straight through.
 *
 * @example
 * const faults = faultPlan<BrokerDriver>();
 * const broker = faultyBroker(memoryBroker({ clock }), faults, clock);
 * faults.on('extend', failBefore('throttled'), { times: 2 });
 * faults.on('complete', dropAnswer(), { nth: 3 });
 */
export interface FaultPlan<Driver> {
  /** Plans a fault for calls of one method; of several that fit a call, the one planned first that is not used up is taken. */
  on<Method extends MethodOf<Driver>>(
    method: Method,
    fault: Fault,
    when?: FaultWhen<ArgsOf<Driver, Method>>,
  ): PlannedFault;
  /** Every call so far, oldest first. */
  readonly calls: readonly LoggedCall[];
  /** The calls of one method. */
  callsOf(method: MethodOf<Driver>): readonly LoggedCall[];
  /** Forgets every planned fault and the log. */
  reset(): void;
}

interface Rule {
  readonly method: string;
  readonly fault: Fault;
  readonly first: number;
  readonly last: number;
  readonly when: (args: readonly unknown[]) => boolean;
  seen: number;
  hits: number;
}

interface Entry {
  readonly method: string;
  readonly args: readonly unknown[];
  readonly at: number;
  readonly faulty: boolean;
  ended?: Ended;
  late?: Ended;
}

class Plan<Driver> implements FaultPlan<Driver> {
  readonly calls: Entry[] = [];
  readonly #rules = new Set<Rule>();

  on<Method extends MethodOf<Driver>>(
    method: Method,
    fault: Fault,
    { nth = 1, times = 1, when = () => true }: FaultWhen<ArgsOf<Driver, Method>> = {},
  ): PlannedFault {
    const rule: Rule = {
      method,
      fault,
      first: nth,
      last: nth + times - 1,
      when: (args) => when(...(args as ArgsOf<Driver, Method>)),
      seen: 0,
      hits: 0,
    };
    this.#rules.add(rule);
    return {
      get hits() {
        return rule.hits;
      },
      cancel: () => void this.#rules.delete(rule),
    };
  }

  callsOf(method: MethodOf<Driver>): readonly LoggedCall[] {
    return this.calls.filter((call) => call.method === method);
  }

  reset(): void {
    this.calls.length = 0;
    this.#rules.clear();
  }

  /** The fault that befalls this call. Every rule counts the calls it would take, even when an earlier one takes them. */
  choose(method: string, args: readonly unknown[]): Fault | undefined {
    let chosen: Rule | undefined;
    for (const rule of this.#rules) {
      if (rule.method !== method || !rule.when(args)) continue;
      rule.seen++;
      if (!chosen && rule.seen >= rule.first && rule.seen <= rule.last) chosen = rule;
    }
    if (chosen) chosen.hits++;
    return chosen?.fault;
  }
}

/** A plan without faults yet. */
export function faultPlan<Driver>(): FaultPlan<Driver> {
  return new Plan<Driver>();
}

/** Wraps `methods` of a driver so that a plan's faults befall them and its log sees them; everything else is the driver's own. */
export function withFaults<Driver extends object>(
  inner: Driver,
  methods: readonly MethodOf<Driver>[],
  plan: FaultPlan<Driver>,
  clock: Clock,
): Driver {
  if (!(plan instanceof Plan)) throw new TypeError('faults: pass what faultPlan() gave.');
  const driver = inner as Readonly<Record<string, ((...args: readonly unknown[]) => Promise<unknown>) | undefined>>;
  const direct = async (method: string, args: readonly unknown[]): Promise<unknown> => driver[method]?.(...args);
  const wrapped =
    (method: string) =>
    async (...all: readonly unknown[]) => {
      const signal = all.findLast((arg) => arg instanceof AbortSignal);
      const args = all.filter((arg) => arg !== signal);
      const fault = plan.choose(method, all);
      const entry: Entry = { method, args, at: clock.monotonic(), faulty: fault !== undefined };
      plan.calls.push(entry);
      const call: FaultCall = {
        method,
        args,
        signal: signal ?? new AbortController().signal,
        clock,
        apply: (given = args, other = signal) => direct(method, other ? [...given, other] : given),
        other: (name, given) => direct(name, [...given, new AbortController().signal]),
        later: (afterMs, work) => {
          clock.timer(afterMs, () => void ending(work()).then((ended) => (entry.late = ended)));
        },
      };
      entry.ended = await ending(fault ? fault(call) : call.apply());
      if ('error' in entry.ended) throw entry.ended.error;
      return entry.ended.value;
    };
  const own = new Map<PropertyKey, unknown>();
  for (const method of methods) if (driver[method]) own.set(method, wrapped(method));
  const classify = driver['classify'] as unknown as ((error: unknown) => BrokerErrorCode) | undefined;
  return new Proxy({} as Driver, {
    has: (_, property) => property in inner,
    get(_, property) {
      if (property === 'classify' && classify) {
        return (error: unknown) => (error instanceof InjectedError ? error.code : classify.call(inner, error));
      }
      return own.get(property) ?? (Reflect.get(inner, property, inner) as unknown);
    },
  });
}

async function ending(work: Promise<unknown>): Promise<Ended> {
  try {
    return { value: await work };
  } catch (error) {
    return { error };
  }
}
