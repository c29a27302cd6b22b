import { sleep, type LeaseholdEvent, type LedgerDriver, type TaskRecord } from '@leasehold/core';
import { hang } from '@leasehold/core/testing';
import { defineTask, guarded, type AnyTask, type CommitContext, type TaskContext } from '@leasehold/worker';
import type { Made } from '../../packages/worker/test/receiver.ts';
import { FaultWorld, type Gate, type Host } from './fault-world.ts';

/** One line of the story. */
interface StoryLine {
  /** Milliseconds since the world began. */
  readonly at: number;
  readonly who: string;
  readonly what: string;
  readonly detail: string;
}

/** One thing that must hold, and what was seen of it. */
interface Check {
  readonly claim: string;
  readonly seen: string;
  readonly holds: boolean;
}

/** What the unpleasant test came to. */
export interface Unpleasant {
  readonly broker: string;
  readonly ledger: string;
  readonly story: readonly StoryLine[];
  readonly checks: readonly Check[];
}

export interface UnpleasantOptions {
  readonly broker: string;
  readonly ledger: string;
  /** Puts something around every process's ledger: a planted weakness. */
  readonly weaken?: (ledger: LedgerDriver) => LedgerDriver;
}

const LEASE_MS = 9_000;
/** W1's request takes this long to arrive; its network is back before, while W2 still holds the task. */
const REQUEST_MS = 30_000;
const BACK_AFTER_MS = 20_000;
const W2_WORKS_MS = 40_000;
const WITHIN_MS = 600_000;

/**
 * W1 claims and sends its external request; its access to ledger and broker is cut; the lease lapses; W2 claims the same work; W1's
 * network returns, and W1, which listens to no signal, tries everything it should not be able to do any more.
 */
export async function unpleasant({ broker, ledger, weaken }: UnpleasantOptions): Promise<Unpleasant> {
  const world = await FaultWorld.open({ broker, ledger, ...(weaken && { weaken }) });
  const scene = new Scene(world);
  try {
    const stuck = await scene.play().then(
      () => undefined,
      (error: unknown) => told(error),
    );
    const ended: Check = { claim: 'the story came to its end', seen: stuck ?? 'it did', holds: stuck === undefined };
    return { broker, ledger, story: scene.story(), checks: [...scene.checks(), ended] };
  } finally {
    await world.dispose();
  }
}

class Scene {
  readonly #world: FaultWorld;
  /** `after`: how many events came before. */
  readonly #lines: (StoryLine & { readonly after: number })[] = [];
  readonly #w1: Host;
  readonly #w2: Host;
  #cut = false;
  #cutAt = Number.POSITIVE_INFINITY;
  #writesBefore = 0;
  #taskId = '';
  #requestId = '';
  #mine: TaskRecord | undefined;
  #request: CommitContext | undefined;
  readonly #tried = new Map<string, string>();

  constructor(world: FaultWorld) {
    this.#world = world;
    const gate: Gate = (_driver, call, own) =>
      own.outside(call.method, () => (this.#cut ? hang()(call) : call.apply()));
    this.#w1 = world.host('W1', gate);
    this.#w2 = world.host('W2');
  }

  async play(): Promise<void> {
    const world = this.#world;
    this.#w1.work([this.#task(this.#w1)], { concurrency: 1, abortGrace: '60s' });
    this.#taskId = await world.enqueue('refund');
    await world.until(() => this.#cut, WITHIN_MS, 'W1 sends its request');
    this.#w2.work([this.#task(this.#w2)], { concurrency: 1 });
    await world.until(() => this.#record?.fencingToken === 2, WITHIN_MS, 'W2 claims');
    await world.until(() => world.elapsedMs >= this.#cutAt + BACK_AFTER_MS, WITHIN_MS, 'the network of W1 returns');
    this.#cut = false;
    this.#note('network', 'W1 reaches ledger and broker again');
    await this.#tryLedger();
    await world.until(() => world.quiet(), WITHIN_MS, 'the task ends');
    await world.advance(2 * REQUEST_MS);
    await world.stop();
  }

  get #record(): TaskRecord | undefined {
    return this.#world.records.get(this.#taskId);
  }

  #task(host: Host): AnyTask {
    return defineTask({
      type: 'refund',
      lease: LEASE_MS,
      run: (_input, ctx) => (host === this.#w1 ? this.#runFirst(ctx) : this.#runSecond(ctx)),
    });
  }

  /** The handler that should have listened to its signal. */
  async #runFirst(ctx: TaskContext): Promise<unknown> {
    await this.#effect(ctx, 'refund', (call) => this.#sendSlowly(ctx, call)).catch((error: unknown) =>
      this.#note('W1', `its refund came to nothing: ${told(error)}`),
    );
    await this.#try('checkpoint', () => ctx.checkpoint({ done: true }));
    await this.#try('another effect', () => this.#effect(ctx, 'voucher', (call) => this.#send(this.#w1, call)));
    const first = this.#request as CommitContext;
    const another = { ...first, idempotencyKey: `${first.idempotencyKey}/again` };
    await this.#try('another request', () => this.#send(this.#w1, another));
    return { refunded: 'by W1' };
  }

  async #runSecond(ctx: TaskContext): Promise<unknown> {
    const found = await this.#effect(ctx, 'refund', (call) => this.#send(this.#w2, call));
    await sleep(this.#w2.process.clock, W2_WORKS_MS, ctx.signal);
    return { refunded: found.id };
  }

  #effect(
    ctx: TaskContext,
    name: string,
    commit: (call: CommitContext) => Promise<Made>,
  ): Promise<{ readonly id: string }> {
    return ctx.effect(name, {
      system: 'bank',
      commit,
      readBack: guarded('https://receiver.test'),
      receipt: (found) => ({ externalId: (found.json() as unknown as Made).id, status: 'made' }),
    });
  }

  /** W1's request leaves, and behind it the network closes. */
  async #sendSlowly(ctx: TaskContext, call: CommitContext): Promise<Made> {
    const { receiver, clock } = this.#world;
    this.#request = call;
    this.#mine = this.#world.records.get(ctx.taskId);
    const landing = ctx.call('post', { provider: 'bank' }, ({ requestId }) => {
      this.#requestId = requestId;
      receiver.latencyMs = REQUEST_MS;
      const sent = this.#send(this.#w1, call);
      this.#cutAt = this.#world.elapsedMs;
      this.#writesBefore = this.#world.writes.length;
      this.#cut = true;
      this.#note('network', 'W1 is cut off from ledger and broker; its request is on its way');
      return sent;
    });
    // Only this request is slow.
    clock.timer(1, () => (receiver.latencyMs = 0));
    return landing;
  }

  async #send(host: Host, call: CommitContext): Promise<Made> {
    this.#note(host.name, `sends a request to the bank, token ${call.fence}`);
    try {
      const made = await this.#world.receiver.make('guarded', call, host.process);
      this.#note('bank', `made ${made.id} for ${host.name}, token ${call.fence}`);
      return made;
    } catch (error) {
      this.#note('bank', `refused ${host.name}: ${told(error)}`);
      throw error;
    }
  }

  async #try(what: string, attempt: () => Promise<unknown>): Promise<void> {
    const came = await attempt().then(
      () => 'it worked',
      (error: unknown) => `refused: ${told(error)}`,
    );
    this.#tried.set(what, came);
    this.#note('W1', `tries ${what}: ${came}`);
  }

  /** What a W1 that believes nothing happened would send: the same writes it would have made a moment after the cut. */
  async #tryLedger(): Promise<void> {
    const mine = this.#mine as TaskRecord;
    const next: TaskRecord = {
      ...mine,
      version: mine.version + 1,
      opId: 'late-renewal',
      renewalCount: mine.renewalCount + 1,
    };
    const result: TaskRecord = { ...next, opId: 'late-result', result: { inline: { refunded: 'by W1' } } };
    const writes = [
      ['renewal', next, { ms: LEASE_MS }],
      ['result', result, undefined],
    ] as const;
    for (const [what, record, lease] of writes) {
      await this.#world.during(this.#try(what, () => this.#put(what, record, lease)));
    }
  }

  async #put(what: string, next: TaskRecord, lease: { readonly ms: number } | undefined): Promise<void> {
    // Under a name of its own: a worker itself stops at its first refusal, which is one of the invariants.
    const ledger = this.#world.ledger(`W1 ${what}`);
    const expect = { version: next.version - 1, lease: 'live' } as const;
    const outcome = await ledger.put(next, lease, expect, new AbortController().signal);
    if (outcome.ok) return;
    throw new Error(`the ledger is at version ${outcome.current?.version}, token ${outcome.current?.fencingToken}`);
  }

  #note(who: string, what: string): void {
    const { elapsedMs, events } = this.#world;
    this.#lines.push({ at: elapsedMs, who, what, detail: '', after: events.length });
  }

  /** The events of the task and what happened around it, in order. */
  story(): readonly StoryLine[] {
    const began = this.#world.clock.wall() - this.#world.elapsedMs;
    const events = this.#world.events.flatMap((event, index) =>
      event.taskId === this.#taskId
        ? [{ at: event.at - began, who: nameOf(event), what: event.name, detail: detailOf(event, began), after: index }]
        : [],
    );
    return [...this.#lines, ...events].toSorted((a, b) => a.after - b.after).map(({ after: _order, ...line }) => line);
  }

  get #events(): readonly LeaseholdEvent[] {
    return this.#world.events.filter(({ taskId }) => taskId === this.#taskId);
  }

  checks(): readonly Check[] {
    const { receiver, writes, invariants } = this.#world;
    const record = this.#record;
    const tokens = this.#events
      .filter(({ name }) => name === 'task_claimed')
      .map((event) => `${nameOf(event)} ${event.token}`);
    const late = writes.slice(this.#writesBefore).filter(({ by }) => by.startsWith('W1'));
    const [made] = receiver.made;
    const came = (what: string): Pick<Check, 'seen' | 'holds'> => {
      const seen = this.#tried.get(what) ?? 'never tried';
      return { seen, holds: seen.startsWith('refused') };
    };
    const lost = this.#events.find((event) => nameOf(event) === 'W1' && event.name === 'handler_aborted');
    const rejected = this.#events.find((event) => nameOf(event) === 'W1' && event.name === 'result_rejected');
    const request = this.#events.find((event) => event.requestId === this.#requestId && event.token === 1);
    const stale = receiver.refusals.filter((refusal) => refusal.startsWith('stale, 1 < 2'));
    return [
      {
        claim: 'W2 claimed the same work with token + 1',
        seen: tokens.join(', '),
        holds: tokens.join() === 'W1 1,W2 2',
      },
      { claim: 'W1 cannot renew', ...came('renewal') },
      { claim: 'W1 cannot write the result', ...came('result') },
      { claim: 'W1 cannot checkpoint', ...came('checkpoint') },
      {
        claim: 'the ledger took nothing from W1 after the cut',
        seen: `${late.length} writes`,
        holds: late.length === 0,
      },
      {
        claim: "W1's result was rejected, and said so",
        seen: rejected?.name ?? 'no event',
        holds: rejected?.token === 1,
      },
      { claim: 'W1 cannot start another effect', ...came('another effect') },
      { claim: 'another request of W1 is refused by the receiver', ...came('another request') },
      {
        claim: "W1's request that was on its way is refused",
        seen: `${stale.length} refused as stale`,
        holds: stale.length === 2,
      },
      {
        claim: 'there is one irreversible effect, made by W2',
        seen: receiver.made.map(({ id, token }) => `${id} token ${token}`).join(', '),
        holds: receiver.made.length === 1 && made?.token === 2,
      },
      {
        claim: 'the task is settled once, by W2, with the receipt of that effect',
        seen: `${record?.state} ${invariants.settles.get(this.#taskId) ?? 0} times, token ${record?.settlementReceipt?.token}, ${record?.settlementReceipt?.externalId}`,
        holds:
          record?.state === 'settled' &&
          invariants.settles.get(this.#taskId) === 1 &&
          record.settlementReceipt?.token === 2 &&
          record.settlementReceipt.externalId === made?.id,
      },
      {
        claim: 'the log has the token and the last confirmed time of W1',
        seen: lost
          ? `${lost.name}, token ${lost.token}, confirmed at ${new Date(lost.lastConfirmedAt ?? 0).toISOString()}`
          : 'no event',
        holds: lost?.token === 1 && lost.lastConfirmedAt !== undefined,
      },
      {
        claim: 'the log has the id of the external request',
        seen: request ? `${request.name} ${request.requestId}` : 'no event',
        holds: this.#requestId !== '' && request !== undefined,
      },
      {
        claim: 'every invariant held',
        seen: invariants.violations.join('; ') || 'no violation',
        holds: invariants.violations.length === 0,
      },
    ];
  }
}

function nameOf({ owner }: LeaseholdEvent): string {
  return owner?.split('/')[0] ?? 'client';
}

function detailOf(event: LeaseholdEvent, began: number): string {
  const { token, stage, ownership, lastConfirmedAt, externalId, requestId, cause, effect, errorCode } = event;
  const facts: readonly (readonly [string, string | number | undefined])[] = [
    ['token', token],
    ['stage', stage],
    ['effect', effect],
    ['ownership', ownership],
    ['confirmed', lastConfirmedAt === undefined ? undefined : seconds(lastConfirmedAt - began)],
    ['external', externalId],
    ['request', requestId],
    ['cause', cause],
    ['error', errorCode],
  ];
  return facts.flatMap(([name, value]) => (value === undefined ? [] : [`${name} ${value}`])).join(', ');
}

/** Milliseconds as seconds, for people. */
export function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(3)} s`;
}

function told(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
