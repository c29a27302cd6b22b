import assert from 'node:assert/strict';
import { delayAnswer } from '@leasehold/core/testing';
import type { PairCase } from './conformance-case.ts';
import {
  adopt,
  canBeHeld,
  drain,
  ends,
  finish,
  lapse,
  nothing,
  post,
  recordOf,
  settle,
  start,
  take,
  takeA,
  taskMessage,
  type Process,
} from './pair-steps.ts';
import { attempt, pass } from './waiting.ts';

const CLAIM = { stage: 'external_call', reason: 'waiting for the model' } as const;

/** It is the store that has to refuse: fails when a write of the owner that slept never got there. */
function wrote(process: Process, times: number): void {
  assert.equal(process.ledgerFaults.callsOf('put').length, times, 'writes that reached the store');
}

/** One owner at a time, for a bounded time. */
export const pairLeaseCases: readonly PairCase[] = [
  {
    name: 'I1: four processes race for eight deliveries of one task: one gets a lease, all others hear that it is busy',
    async run(harness) {
      const processes = await Promise.all(['a', 'b', 'c', 'd'].map((owner) => start(harness, owner)));
      const [a] = processes;
      assert.ok(a);
      await post(
        a,
        Array.from({ length: 8 }, () => taskMessage('raced')),
      );
      const got = (await Promise.all(processes.map((process) => take(process, 2)))).flat();
      const leases = got.filter(({ kind }) => kind === 'lease').length;
      const busy = got.filter(({ kind }) => kind === 'busy').length;
      assert.deepEqual({ leases, busy }, { leases: 1, busy: 7 });
      const { fencingToken, attempt: attempts, version } = await recordOf(a, 'raced');
      assert.deepEqual({ fencingToken, attempts, version }, { fencingToken: 1, attempts: 1, version: 1 });
    },
  },
  {
    name: 'field case 17: a lease that is renewed is kept beyond its first length, at the broker and in the ledger',
    needs: (capabilities) => canBeHeld(2.5, capabilities),
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('kept')]);
      const lease = await takeA(a, 'lease');
      for (let beat = 1; beat <= 3; beat++) {
        await pass(harness, a.leaseMs * 0.45);
        assert.equal(await ends(a, a.broker.renew(lease, CLAIM), 'a renewal'), 'held', `beat ${beat}`);
        await drain(a);
      }
      await nothing(b, 'while the owner renews');
      const { renewalCount, fencingToken, renewalReason } = await recordOf(a, 'kept');
      assert.deepEqual([renewalCount, fencingToken, renewalReason], [3, 1, CLAIM.reason]);
      await finish(a, lease);
    },
  },
  {
    name: 'field case 28: a lease that nobody renews lapses, and the next delivery takes the task over with a higher token',
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('lapsing')]);
      const first = await takeA(a, 'lease');
      assert.equal(first.token, 1);
      await pass(harness, a.leaseMs * 0.4);
      await nothing(b, 'while the lease is live');
      await lapse(a);
      assert.equal(first.ownership, 'lost');
      const second = await takeA(b, 'lease');
      const { fencingToken, attempt: attempts, failures, leaseOwner } = await recordOf(b, 'lapsing');
      assert.deepEqual([second.token, fencingToken, attempts, failures, leaseOwner], [2, 2, 2, 1, 'b']);
      await finish(b, second);
      await lapse(b);
      await nothing(a, 'of a task that is settled');
    },
  },
  {
    name: 'field case 6, I3: the settle of an owner that slept through a takeover is refused, and its result never stored',
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('stale')]);
      const first = await takeA(a, 'lease');
      a.pause();
      await lapse(b);
      const second = await takeA(b, 'lease');
      const before = await recordOf(b, 'stale');
      const refused = await settle(a, first, 'of the old owner');
      wrote(a, 2);
      assert.ok(typeof refused === 'object' && 'lost' in refused, `the settle was answered ${JSON.stringify(refused)}`);
      assert.deepEqual(await recordOf(b, 'stale'), before);
      await finish(b, second, 'of the new owner');
      const { result, settlementReceipt } = await recordOf(b, 'stale');
      assert.deepEqual([result, settlementReceipt?.token], [{ inline: 'of the new owner' }, second.token]);
    },
  },
  {
    name: 'I2: a task that is settled is not settled again by an owner that slept',
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('once')]);
      const first = await takeA(a, 'lease');
      a.pause();
      await lapse(b);
      await finish(b, await takeA(b, 'lease'), 'the first');
      const settled = await recordOf(b, 'once');
      const again = await settle(a, first, 'the second');
      wrote(a, 2);
      assert.ok(typeof again === 'object' && 'lost' in again, `the settle was answered ${JSON.stringify(again)}`);
      assert.deepEqual(await recordOf(b, 'once'), settled);
    },
  },
  {
    name: 'I7: an owner that slept beyond its lease renews and settles nothing, even when nobody took the task',
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('slept')]);
      const lease = await takeA(a, 'lease');
      const before = await recordOf(b, 'slept');
      a.pause();
      await lapse(b);
      const renewed = await ends(a, a.broker.renew(lease, CLAIM), 'a renewal');
      wrote(a, 2);
      assert.ok(typeof renewed === 'object', `a lapsed lease was renewed: ${JSON.stringify(renewed)}`);
      assert.equal(renewed.lost, 'expired');
      const settled = await settle(a, lease);
      assert.ok(typeof settled === 'object' && 'lost' in settled, 'a lost lease was settled');
      assert.deepEqual(await recordOf(b, 'slept'), before);
    },
  },
  {
    name: 'field case 34, I8: steps of the wall clock neither end a lease nor give it away',
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('stepped'), taskMessage('stepped')]);
      const lease = await takeA(a, 'lease');
      const busy = await takeA(b, 'busy');
      for (const step of [3_600_000, -60_000, -7_200_000]) {
        a.stepWall(step);
        assert.equal((await adopt(b, busy.held)).kind, 'busy', `after a step of ${step} ms`);
        assert.equal(await ends(a, a.broker.renew(lease, CLAIM), 'a renewal'), 'held', `after a step of ${step} ms`);
      }
      await finish(a, lease);
      assert.equal((await adopt(b, busy.held)).kind, 'replay');
    },
  },
  {
    name: 'field case 26: close waits until the broker has answered, and what was settled before does not come back',
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('one'), taskMessage('two'), taskMessage('three')]);
      const taken = await take(a, 3);
      a.queueFaults.on('complete', delayAnswer(500), { times: Number.POSITIVE_INFINITY });
      for (const lease of taken) {
        assert.ok(lease.kind === 'lease');
        assert.equal(await settle(a, lease), 'settled');
      }
      await ends(a, a.broker.close(), 'a close');
      const completes = a.queueFaults.callsOf('complete');
      const [close] = a.queueFaults.callsOf('close');
      assert.ok(close && completes.length > 0);
      for (const { at } of completes) assert.ok(at + 490 <= close.at, 'the driver was closed before it had answered');
      const late = await attempt(ends(a, a.broker.receive({ max: 1, leaseMs: a.leaseMs, waitMs: 0 }), 'a receive'));
      assert.ok('error' in late, 'a closed broker received');
      await lapse(b);
      await nothing(b, 'of tasks that were settled before the close');
    },
  },
];
