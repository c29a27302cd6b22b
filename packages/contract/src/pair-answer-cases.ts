import assert from 'node:assert/strict';
import { applyLater, dropAnswer, failEntries } from '@leasehold/core/testing';
import type { PairCase } from './conformance-case.ts';
import {
  adopt,
  drain,
  ends,
  enqueue,
  finish,
  lapse,
  look,
  nothing,
  post,
  recordOf,
  settle,
  start,
  take,
  takeA,
  taskMessage,
  whatIsThere,
} from './pair-steps.ts';
import { pass, slack } from './waiting.ts';

const CLAIM = { stage: 'external_call', reason: 'waiting for the model' } as const;

/** Answers that are lost, late or partly no. */
export const pairAnswerCases: readonly PairCase[] = [
  {
    name: 'field case 13: a claim whose answer was lost is recognised: one lease, neither none nor two',
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('claimed')]);
      const lost = a.ledgerFaults.on('put', dropAnswer());
      const lease = await takeA(a, 'lease');
      assert.equal(lost.hits, 1);
      const { version, fencingToken, attempt } = await recordOf(a, 'claimed');
      assert.deepEqual([lease.token, version, fencingToken, attempt], [1, 1, 1, 1]);
      await nothing(b, 'of a task that is held');
      await finish(a, lease);
    },
  },
  {
    name: 'field case 15: a settle whose answer was lost is recognised, acknowledged, and written once',
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('settled')]);
      const lease = await takeA(a, 'lease');
      const lost = a.ledgerFaults.on('put', dropAnswer());
      await finish(a, lease, 'the result');
      assert.equal(lost.hits, 1);
      const { version, state, result } = await recordOf(a, 'settled');
      assert.deepEqual([version, state, result], [2, 'settled', { inline: 'the result' }]);
      await lapse(a);
      await nothing(b, 'of a task that is settled');
    },
  },
  {
    name: 'field case 15: a settle that is never answered acknowledges nothing, and redelivery finds the task settled',
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('reconciled')]);
      const lease = await takeA(a, 'lease');
      a.ledgerFaults.on('put', dropAnswer(), { times: Number.POSITIVE_INFINITY });
      const outcome = await settle(a, lease, 'the result');
      assert.ok(outcome === 'unknown' || (typeof outcome === 'object' && 'lost' in outcome), JSON.stringify(outcome));
      await drain(a);
      assert.deepEqual(a.queueFaults.callsOf('complete'), []);
      await lapse(b);
      const replay = await takeA(b, 'replay');
      assert.deepEqual([replay.receipt?.token, replay.record.result], [1, { inline: 'the result' }]);
      await drain(b);
      await lapse(b);
      await nothing(b, 'of a task that was acknowledged');
    },
  },
  {
    name: 'an enqueue whose answer was lost may send a task twice, and it runs once',
    async run(harness) {
      const a = await start(harness, 'a');
      a.queueFaults.on('send', dropAnswer());
      await enqueue(a, ['sent twice']);
      const lease = await takeA(a, 'lease');
      const others = await whatIsThere(a);
      assert.ok(others.length <= 1, `${others.length + 1} messages were sent`);
      await finish(a, lease);
      for (const other of others) {
        assert.ok(other.kind === 'busy', `the second message turned out as ${other.kind}`);
        assert.equal((await adopt(a, other.held)).kind, 'replay');
      }
      await drain(a);
      await lapse(a);
      await nothing(a, 'of a task that is settled');
      assert.equal((await recordOf(a, 'sent twice')).attempt, 1);
    },
  },
  {
    name: 'a renewal whose answer was lost leaves ownership unknown, and the next one goes on from it',
    async run(harness) {
      const a = await start(harness, 'a');
      await post(a, [taskMessage('renewed')]);
      const lease = await takeA(a, 'lease');
      a.ledgerFaults.on('put', dropAnswer());
      assert.equal(await ends(a, a.broker.renew(lease, CLAIM), 'a renewal'), 'unknown');
      assert.equal(lease.ownership, 'unknown');
      assert.equal(await ends(a, a.broker.renew(lease, CLAIM), 'a renewal'), 'held');
      const { renewalCount, fencingToken, version } = await recordOf(a, 'renewed');
      assert.deepEqual([renewalCount, fencingToken, version], [2, 1, 3]);
      await finish(a, lease);
    },
  },
  {
    name: 'I7: a renewal that was given up and lands after the lease has lapsed does not revive it',
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('given up')]);
      const lease = await takeA(a, 'lease');
      const before = await recordOf(a, 'given up');
      const { clockErrorMs } = a.capabilities.ledger;
      const afterMs = a.leaseMs * 1.4 + clockErrorMs * 2;
      a.ledgerFaults.on('put', applyLater(afterMs));
      assert.equal(await ends(a, a.broker.renew(lease, CLAIM), 'a renewal'), 'unknown');
      await pass(harness, afterMs + slack(harness, a.leaseMs));
      assert.ok(a.ledgerFaults.callsOf('put').at(-1)?.late, 'the late write has not landed yet');
      assert.deepEqual(await recordOf(a, 'given up'), before);
      assert.equal((await takeA(b, 'lease')).token, 2);
    },
  },
  {
    name: 'I7: a renewal that lands late, but in time, does not outlive its first sending and the length of the lease',
    async run(harness) {
      const a = await start(harness, 'a');
      await post(a, [taskMessage('late')]);
      const lease = await takeA(a, 'lease');
      const { now } = await look(a, 'late');
      const { clockErrorMs } = a.capabilities.ledger;
      a.ledgerFaults.on('put', applyLater(a.leaseMs * 0.7));
      assert.equal(await ends(a, a.broker.renew(lease, CLAIM), 'a renewal'), 'unknown');
      await pass(harness, a.leaseMs * 0.7 + slack(harness, a.leaseMs));
      const { renewalCount, leaseExpiresAt = 0 } = await recordOf(a, 'late');
      assert.equal(renewalCount, 1, 'the late write was not applied though the lease was live');
      const bound = now.latest + a.leaseMs + clockErrorMs + a.leaseMs * 0.2;
      assert.ok(leaseExpiresAt <= bound, `the lease outlives its bound by ${leaseExpiresAt - bound} ms`);
    },
  },
  {
    name: 'I3: a late write of an older owner changes nothing once the task was taken over',
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('overtaken')]);
      const first = await takeA(a, 'lease');
      const { clockErrorMs } = a.capabilities.ledger;
      a.ledgerFaults.on('put', applyLater(a.leaseMs * 1.5 + clockErrorMs * 2));
      assert.equal(await ends(a, a.broker.renew(first, CLAIM), 'a renewal'), 'unknown');
      await lapse(a);
      const second = await takeA(b, 'lease');
      const owned = await recordOf(b, 'overtaken');
      await pass(harness, a.leaseMs * 0.5 + clockErrorMs + slack(harness, a.leaseMs));
      assert.ok(a.ledgerFaults.callsOf('put').at(-1)?.late, 'the late write has not landed yet');
      assert.deepEqual(await recordOf(b, 'overtaken'), owned);
      await finish(b, second);
    },
  },
  {
    name: 'field case 21: of acknowledgements that failed in part only those that failed are sent again',
    needs: ({ broker }) => broker.maxBatch.handles > 1,
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('one'), taskMessage('two'), taskMessage('three')]);
      const leases = (await take(a, 3)).map((one) => {
        assert.ok(one.kind === 'lease');
        return one;
      });
      const handles = leases.map(({ held }) => held.delivery.handle);
      const bad = handles[1];
      a.queueFaults.on(
        'complete',
        failEntries('throttled', (_, handle) => handle === bad),
        {
          when: (asked) => asked.includes(bad),
        },
      );
      assert.deepEqual(await Promise.all(leases.map((lease) => settle(a, lease))), Array(3).fill('settled'));
      await drain(a);
      const asked = a.queueFaults.callsOf('complete').flatMap(({ args }) => args[0] as readonly unknown[]);
      assert.deepEqual(
        handles.map((handle) => asked.filter((one) => one === handle).length),
        [1, 2, 1],
        'how often each was acknowledged',
      );
      await lapse(a);
      await nothing(b, 'of tasks that are settled');
    },
  },
];
