import { InjectedError } from '@leasehold/core/testing';
import type { Strike } from '../../packages/worker/src/testing/process.ts';
import { FAULTY_MS, type Link, type Plan, type PlannedFault } from './plan.ts';
import type { Seeded } from './seeded.ts';
import type { SimClock } from './sim-clock.ts';

/** A request that nobody answers is given up by the receivers' clients after this long. */
const CLIENT_TIMEOUT_MS = 4_000;

type CallFault = Extract<PlannedFault, { what: 'call' }>;
type StrikeFault = Extract<PlannedFault, { what: 'strike' }>;
type Partition = Extract<PlannedFault, { what: 'partition' }>;
type Throttle = Extract<PlannedFault, { what: 'throttle' }>;

/** What is on its way cannot be called off. */
const NEVER = new AbortController().signal;

/** The links between processes and what they call: every request takes its time, and may get lost, be late or be refused. */
export class Wire {
  readonly #clock: SimClock;
  readonly #random: Seeded;
  readonly #strikes: readonly StrikeFault[];
  readonly #calls: readonly CallFault[];
  readonly #partitions: readonly Partition[];
  readonly #throttles: readonly Throttle[];
  readonly #startedAt: number;
  readonly #seen = new Map<string, number>();
  readonly #note: (text: () => string) => void;

  constructor(parts: { clock: SimClock; random: Seeded; plan: Plan; note: (text: () => string) => void }) {
    this.#clock = parts.clock;
    this.#random = parts.random;
    const { faults } = parts.plan;
    this.#strikes = faults.filter((fault) => fault.what === 'strike');
    this.#calls = faults.filter((fault) => fault.what === 'call');
    this.#partitions = faults.filter((fault) => fault.what === 'partition');
    this.#throttles = faults.filter((fault) => fault.what === 'throttle');
    this.#note = parts.note;
    this.#startedAt = parts.clock.monotonic();
  }

  /** What befalls the process at the call that it makes now. */
  strike(slot: number, link: Link): Strike | undefined {
    if (this.#strikes.length === 0) return undefined;
    const nth = this.#count(`strike ${slot} ${link}`);
    const found = this.#strikes.find((fault) => fault.slot === slot && fault.link === link && fault.nth === nth);
    if (!found || !this.faulty) return undefined;
    this.#note(() => `${found.fate} at this call${found.fate.startsWith('paused') ? `, for ${found.forMs} ms` : ''}`);
    return { fate: found.fate, forMs: found.forMs };
  }

  get faulty(): boolean {
    return this.#elapsed < FAULTY_MS;
  }

  /**
   * Carries a request over and its answer back. What is on its way goes on whatever becomes of whoever sent it. A receive alone can be called
   * off: a driver never takes and drops.
   */
  async carry<Answer>(
    from: { readonly slot: number; readonly link: Link; readonly method: string },
    call: (signal: AbortSignal) => Promise<Answer>,
    signal: AbortSignal,
  ): Promise<Answer> {
    const { slot, link, method } = from;
    const fault = this.#faultAt(slot, link, method);
    const before = 0.2 + this.#random.next() * this.#random.pick([2, 25]);
    const after = 0.2 + this.#random.next() * this.#random.pick([2, 25]);
    if (fault)
      this.#note(
        () => `${fault.fate}${fault.fate === 'late' || fault.fate === 'slow answer' ? ` by ${fault.ms} ms` : ''}`,
      );
    if (this.#throttles.some((throttle) => this.#befalls(throttle, slot, link))) {
      await this.#sleep(before);
      throw new InjectedError('throttled', `throttled: ${method}`);
    }
    if (fault?.fate === 'request lost' || this.#cut(slot, link, 'requests')) return this.#silence(link);
    await this.#sleep(before + (fault?.fate === 'late' ? fault.ms : 0));
    const receives = method === 'receive';
    if (receives) signal.throwIfAborted();
    const answer = await settled(call(receives ? signal : NEVER));
    await this.#sleep(after + (fault?.fate === 'slow answer' ? fault.ms : 0));
    if (fault?.fate === 'answer lost' || this.#cut(slot, link, 'answers')) return this.#silence(link);
    if ('error' in answer) throw answer.error;
    return answer.value;
  }

  async #silence(link: Link): Promise<never> {
    // Core bounds its calls itself; handlers have clients that do.
    if (link !== 'receiver') return new Promise<never>(() => undefined);
    await this.#sleep(CLIENT_TIMEOUT_MS);
    throw new InjectedError('unavailable', 'the receiver did not answer');
  }

  #faultAt(slot: number, link: Link, method: string): CallFault | undefined {
    if (this.#calls.length === 0) return undefined;
    const any = this.#count(`${slot} ${link}`);
    const own = this.#count(`${slot} ${link} ${method}`);
    if (!this.faulty) return undefined;
    return this.#calls.find(
      (fault) =>
        fault.slot === slot &&
        fault.link === link &&
        (fault.method === undefined ? fault.nth === any : fault.method === method && fault.nth === own),
    );
  }

  #cut(slot: number, link: Link, way: 'requests' | 'answers'): boolean {
    return this.#partitions.some(
      (partition) => (partition.way === 'both' || partition.way === way) && this.#befalls(partition, slot, link),
    );
  }

  #befalls(fault: Partition | Throttle, slot: number, link: Link): boolean {
    if (fault.slot !== slot || fault.link !== link) return false;
    const now = this.#elapsed;
    return now >= fault.at && now < fault.at + fault.forMs && this.faulty;
  }

  get #elapsed(): number {
    return this.#clock.monotonic() - this.#startedAt;
  }

  #count(what: string): number {
    const next = (this.#seen.get(what) ?? 0) + 1;
    this.#seen.set(what, next);
    return next;
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#clock.timer(ms, resolve));
  }
}

async function settled<Answer>(work: Promise<Answer>): Promise<{ value: Answer } | { error: unknown }> {
  try {
    return { value: await work };
  } catch (error) {
    return { error };
  }
}
