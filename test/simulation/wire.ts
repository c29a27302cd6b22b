import { InjectedError } from '@leasehold/core/testing';
import type { Strike } from '../../packages/worker/src/testing/process.ts';
import { FAULTY_MS, type Link, type Plan, type PlannedFault } from './plan.ts';
import type { Seeded } from './seeded.ts';
import type { SimClock } from './sim-clock.ts';

/** A request that nobody answers is given up by the receivers' clients after this long. */
const CLIENT_TIMEOUT_MS = 4_000;

type CallFault = Extract<PlannedFault, { what: 'call' }>;

/** The links between processes and what they call: every request takes its time, and may get lost, be late or be refused. */
export class Wire {
  readonly #clock: SimClock;
  readonly #random: Seeded;
  readonly #plan: Plan;
  readonly #startedAt: number;
  readonly #seen = new Map<string, number>();
  readonly #note: (text: string) => void;

  constructor(parts: { clock: SimClock; random: Seeded; plan: Plan; note: (text: string) => void }) {
    this.#clock = parts.clock;
    this.#random = parts.random;
    this.#plan = parts.plan;
    this.#note = parts.note;
    this.#startedAt = parts.clock.monotonic();
  }

  /** What befalls the process at the call that it makes now. */
  strike(slot: number, link: Link): Strike | undefined {
    const nth = this.#count(`strike ${slot} ${link}`);
    const found = this.#plan.faults.find(
      (fault) => fault.what === 'strike' && fault.slot === slot && fault.link === link && fault.nth === nth,
    );
    if (found?.what !== 'strike' || !this.faulty) return undefined;
    this.#note(`${found.fate} at this call${found.fate.startsWith('paused') ? `, for ${found.forMs} ms` : ''}`);
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
      this.#note(`${fault.fate}${fault.fate === 'late' || fault.fate === 'slow answer' ? ` by ${fault.ms} ms` : ''}`);
    if (this.#during('throttle', slot, link)) {
      await this.#sleep(before);
      throw new InjectedError('throttled', `throttled: ${method}`);
    }
    if (fault?.fate === 'request lost' || this.#cut(slot, link, 'requests')) return this.#silence(link);
    await this.#sleep(before + (fault?.fate === 'late' ? fault.ms : 0));
    const receives = method === 'receive';
    if (receives) signal.throwIfAborted();
    const answer = await settled(call(receives ? signal : new AbortController().signal));
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
    const any = this.#count(`${slot} ${link}`);
    const own = this.#count(`${slot} ${link} ${method}`);
    if (!this.faulty) return undefined;
    return this.#plan.faults.find(
      (fault): fault is CallFault =>
        fault.what === 'call' &&
        fault.slot === slot &&
        fault.link === link &&
        (fault.method === undefined ? fault.nth === any : fault.method === method && fault.nth === own),
    );
  }

  #cut(slot: number, link: Link, way: 'requests' | 'answers'): boolean {
    return this.#plan.faults.some(
      (fault) =>
        fault.what === 'partition' &&
        fault.slot === slot &&
        fault.link === link &&
        (fault.way === 'both' || fault.way === way) &&
        this.#within(fault),
    );
  }

  #during(what: 'throttle', slot: number, link: Link): boolean {
    return this.#plan.faults.some(
      (fault) => fault.what === what && fault.slot === slot && fault.link === link && this.#within(fault),
    );
  }

  #within(fault: { readonly at: number; readonly forMs: number }): boolean {
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
