import { describe, expect, test } from 'vitest';
import { virtualClock, type BrokerDriver, type Clock, type GuardStore, type LedgerDriver } from '@leasehold/core';
import { memoryBroker, memoryGuard, memoryLedger, memoryQueue, type MemoryBrokerOptions } from '@leasehold/core/memory';
import {
  applyLater,
  delayAnswer,
  delayCall,
  dropAnswer,
  duplicateDelivery,
  failBefore,
  failEntries,
  faultPlan,
  faultyBroker,
  faultyGuard,
  faultyLedger,
  hang,
  hangDeaf,
  pretend,
  unconfirmedEntries,
  type Fault,
} from '@leasehold/core/testing';
import { record } from '../memory/sample-record.ts';

const never = new AbortController().signal;

/** Told what, when; and whether the call was applied by then. */
async function watch(clock: Clock, work: Promise<unknown>, applied: () => boolean): Promise<string> {
  const [what] = await Promise.allSettled([work]);
  const told = what.status === 'fulfilled' ? 'an answer' : (what.reason as Error).message;
  return `${told} at ${clock.monotonic() - 1_000}, ${applied() ? 'applied' : 'not applied'}`;
}

describe('one write, aborted by its caller after 100 ms where it is not answered before', () => {
  const faults: Readonly<Record<string, readonly [fault: Fault, told: string, inTheEnd: boolean]>> = {
    'no fault': [(call) => call.apply(), 'an answer at 0, applied', true],
    failBefore: [failBefore('throttled'), 'injected: put was refused before it was applied at 0, not applied', false],
    dropAnswer: [dropAnswer(), 'injected: put was applied, and its answer lost: timed out at 0, applied', true],
    'dropAnswer after a while': [
      dropAnswer(30),
      'injected: put was applied, and its answer lost: timed out at 30, applied',
      true,
    ],
    delayAnswer: [delayAnswer(70), 'an answer at 70, applied', true],
    'delayAnswer beyond the abort': [delayAnswer(700), 'given up at 100, applied', true],
    delayCall: [delayCall(70), 'an answer at 70, applied', true],
    'delayCall beyond the abort': [delayCall(700), 'given up at 100, not applied', false],
    hang: [hang(), 'given up at 100, not applied', false],
    'hangDeaf, rejecting late': [hangDeaf(60_000), 'injected: put hung for 60000 ms at 60000, not applied', false],
    applyLater: [applyLater(500), 'injected: put timed out on its way at 0, not applied', true],
    'applyLater, told on abort': [applyLater(500, 'on-abort'), 'given up at 100, not applied', true],
  };
  for (const [name, [fault, told, inTheEnd]] of Object.entries(faults)) {
    test(`${name}: ${told}, ${inTheEnd ? 'written' : 'not written'} in the end`, async () => {
      const clock = virtualClock();
      const plan = faultPlan<LedgerDriver>();
      const inner = memoryLedger({ clock });
      const ledger = faultyLedger(inner, plan, clock);
      plan.on('put', fault);
      const stop = new AbortController();
      const applied = (): boolean => inner.table.records.length === 1;
      const watched = watch(clock, ledger.put(record('a'), undefined, { version: 0 }, stop.signal), applied);
      const timer = clock.timer(100, () => stop.abort(new Error('given up')));
      await clock.advance(60_000);
      timer.cancel();
      expect(await watched).toBe(told);
      expect(applied()).toBe(inTheEnd);
      expect(clock.pending).toBe(0);
    });
  }

  test('hangDeaf never ends, not even by an abort', async () => {
    const clock = virtualClock();
    const plan = faultPlan<BrokerDriver>();
    const broker = faultyBroker(memoryBroker({ clock }), plan, clock);
    plan.on('close', hangDeaf());
    plan.on('receive', hangDeaf());
    const ended: string[] = [];
    const stop = new AbortController();
    void broker.close().finally(() => ended.push('close'));
    void broker.receive({ max: 1, leaseMs: 1_000, waitMs: 0 }, stop.signal).finally(() => ended.push('receive'));
    stop.abort();
    await clock.advance(3_600_000);
    expect(ended).toEqual([]);
    expect(plan.calls.map(({ ended: how }) => how)).toEqual([undefined, undefined]);
  });
});

describe('batches', () => {
  async function held(count: number, options: MemoryBrokerOptions = {}) {
    const clock = virtualClock();
    const queue = memoryQueue();
    const plan = faultPlan<BrokerDriver>();
    const broker = faultyBroker(memoryBroker({ ...options, queue, clock }), plan, clock);
    const messages = Array.from({ length: count }, (_, index) => ({ body: Uint8Array.of(index), attributes: {} }));
    await broker.send(messages, never);
    const receive = () => broker.receive({ max: 10, leaseMs: 1_000, waitMs: 0 }, never);
    const handles = (await receive()).map(({ handle }) => handle);
    return { clock, queue, plan, broker, handles, receive };
  }

  test('field case 21: entries fail inside a success, and only they are not applied', async () => {
    const { queue, plan, broker, handles } = await held(10);
    plan.on(
      'complete',
      failEntries('throttled', (index) => index === 3 || index === 7),
    );
    const outcomes = await broker.complete(handles, never);
    expect(outcomes.map((outcome) => (outcome === 'done' ? '.' : 'x')).join('')).toBe('...x...x..');
    expect(outcomes[3]).toEqual({ failed: 'throttled' });
    expect(queue.messages.map(({ body }) => body[0])).toEqual([3, 7]);
  });

  test('field case 21: without a list of successes all is applied and nothing confirmed', async () => {
    const { queue, plan, broker, handles } = await held(2);
    plan.on('complete', unconfirmedEntries());
    expect(await broker.complete(handles, never)).toEqual([{ failed: 'unknown' }, { failed: 'unknown' }]);
    expect(queue.messages).toEqual([]);
  });

  test('field case 7: a stale extend says done and does nothing; complete and reject say what they are told to', async () => {
    const { clock, queue, plan, broker, handles } = await held(1);
    plan.on('extend', pretend('done'));
    plan.on('complete', pretend('gone'));
    plan.on('reject', pretend('done'));
    await clock.advance(600);
    expect(await broker.extend(handles, 1_000, never)).toEqual(['done']);
    expect(await broker.complete(handles, never)).toEqual(['gone']);
    expect(await broker.reject(handles[0], { reason: 'r', description: 'd', attributes: {} }, never)).toBe('done');
    expect(queue.inFlight).toHaveLength(1);
    await clock.advance(400);
    expect(queue.inFlight).toHaveLength(0);
    expect(queue.deadLetters).toHaveLength(0);
  });

  test('a duplicate comes under a new handle, and the first one is worth nothing', async () => {
    const { plan, broker, handles, receive } = await held(1);
    await broker.release(handles, 0, never);
    plan.on('receive', duplicateDelivery());
    const [first] = await receive();
    const [second] = await receive();
    expect(second?.messageId).toBe(first?.messageId);
    expect(second?.handle).not.toBe(first?.handle);
    expect(await broker.complete([first?.handle], never)).toEqual(['gone']);
    expect(await broker.complete([second?.handle], never)).toEqual(['done']);
  });
});

describe('the plan', () => {
  test('field case 46: throttled twice, then through; and only the call and the arguments that were meant', async () => {
    const clock = virtualClock();
    const plan = faultPlan<LedgerDriver>();
    const ledger = faultyLedger(memoryLedger({ clock }), plan, clock);
    const get = async (taskId: string): Promise<string> =>
      ledger.get(taskId, never).then(
        () => 'ok',
        (error: unknown) => ledger.classify(error),
      );
    const throttled = plan.on('get', failBefore('throttled'), { times: 2, when: (taskId) => taskId === 'a' });
    const denied = plan.on('get', failBefore('denied'), { nth: 3, times: Infinity, when: (taskId) => taskId === 'b' });
    const found: string[] = [];
    for (const id of ['a', 'b', 'a', 'b', 'a', 'b', 'b', 'c']) found.push(`${id} ${await get(id)}`);
    expect(found).toEqual(['a throttled', 'b ok', 'a throttled', 'b ok', 'a ok', 'b denied', 'b denied', 'c ok']);
    expect([throttled.hits, denied.hits]).toEqual([2, 2]);
    denied.cancel();
    expect(await get('b')).toBe('ok');
    plan.on('get', failBefore(), { times: Infinity });
    plan.reset();
    expect(await get('b')).toBe('ok');
    expect(plan.calls).toHaveLength(1);
  });

  test('a planned fault counts the calls that another one takes from it', async () => {
    const clock = virtualClock();
    const plan = faultPlan<LedgerDriver>();
    const ledger = faultyLedger(memoryLedger({ clock }), plan, clock);
    plan.on('get', failBefore('throttled'), { nth: 2, times: 2 });
    plan.on('get', failBefore('denied'), { nth: 3, times: 2 });
    const found: string[] = [];
    for (let turn = 0; turn < 5; turn++) {
      found.push(
        await ledger.get('a', never).then(
          () => 'ok',
          (error: unknown) => ledger.classify(error),
        ),
      );
    }
    expect(found).toEqual(['ok', 'throttled', 'throttled', 'denied', 'ok']);
  });

  test('the log holds every call with its arguments, its time and its end, also of the one that was applied late', async () => {
    const clock = virtualClock();
    const plan = faultPlan<GuardStore>();
    const guard = faultyGuard(memoryGuard({ clock }), plan, clock);
    const ask = { scope: 's', key: 'k', hold: 'h1', requestHash: 'h', holdMs: 1_000, retentionMs: 1_000 };
    plan.on('begin', applyLater(50), { nth: 1 });
    await expect(guard.begin(ask, never)).rejects.toThrow('timed out on its way');
    await clock.advance(100);
    expect(await guard.begin({ ...ask, hold: 'h2' }, never)).toBe('in-progress');
    await guard.extend({ ...ask, hold: 'nobody' }, 5, never);
    expect(plan.calls).toMatchObject([
      {
        method: 'begin',
        args: [ask],
        at: 1_000,
        faulty: true,
        ended: { error: { code: 'unavailable' } },
        late: { value: {} },
      },
      { method: 'begin', at: 1_100, faulty: false, ended: { value: 'in-progress' } },
      { method: 'extend', args: [{ hold: 'nobody' }, 5], faulty: false, ended: { value: false } },
    ]);
    expect(plan.callsOf('begin')).toHaveLength(2);
  });

  test('errors of the driver itself pass through, and keep their class', async () => {
    const clock = virtualClock();
    const plan = faultPlan<BrokerDriver>();
    const broker = faultyBroker(memoryBroker({ clock }), plan, clock);
    await broker.close();
    const failure: unknown = await broker.send([], never).catch((error: unknown) => error);
    expect(broker.classify(failure)).toBe('unavailable');
    expect(broker.classify(new Error('other'))).toBe('unknown');
    expect(plan.calls.at(-1)).toMatchObject({ method: 'send', ended: { error: failure } });
  });

  test('a wrapped driver shows what its own says, also what that learns when it is opened', async () => {
    let max = 1;
    const inner: BrokerDriver = {
      ...memoryBroker(),
      get capabilities() {
        return { ...memoryBroker().capabilities, maxBodyBytes: max };
      },
      open: async () => {
        max = 2;
      },
    };
    const clock = virtualClock();
    const plan = faultPlan<BrokerDriver>();
    const broker = faultyBroker(inner, plan, clock);
    expect(broker.capabilities.maxBodyBytes).toBe(1);
    await broker.open?.(never);
    expect(broker.capabilities.maxBodyBytes).toBe(2);
    expect(plan.callsOf('open')).toHaveLength(1);
    expect('open' in faultyBroker(memoryBroker({ clock }), plan, clock)).toBe(false);
    expect(faultyBroker(memoryBroker({ clock }), plan, clock).open).toBeUndefined();
  });
});
