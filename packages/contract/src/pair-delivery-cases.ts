import assert from 'node:assert/strict';
import { cloudEvents, createTaskClient, messageBytes, type Lease } from '@leasehold/core';
import { failBefore } from '@leasehold/core/testing';
import type { PairCapabilities, PairCase } from './conformance-case.ts';
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
  type Process,
} from './pair-steps.ts';
import { pass, slack } from './waiting.ts';

const ERROR = { errorClass: 'retryable', code: 'E1', message: 'try again' };
const bytes = new TextEncoder();

const longestDelay = ({ broker }: PairCapabilities): number => Math.max(broker.releaseDelayMs, broker.sendDelayMs);
const byCopy = ({ broker }: PairCapabilities): boolean => broker.releaseDelayMs === 0 && broker.sendDelayMs > 0;

/** A delay that the broker can keep, in steps of its leases, and that is shorter than a lease. */
function delayFor({ capabilities, leaseMs }: Process): number {
  const { step } = capabilities.broker.leaseMs;
  return Math.floor(Math.min(longestDelay(capabilities) || leaseMs, Math.ceil((leaseMs * 0.4) / step) * step));
}

async function release(process: Process, lease: Lease, delayMs: number): Promise<void> {
  const why = { error: ERROR, delayMs, failure: true };
  assert.equal(await ends(process, process.broker.release(lease, why), 'a release'), 'done');
  await drain(process);
}

/** Deliveries that are given back, doubled, in order, or not to be run. */
export const pairDeliveryCases: readonly PairCase[] = [
  {
    name: 'field case 19: a task released with a delay does not come back before it, and then with a higher token',
    needs: (capabilities) => longestDelay(capabilities) > 0,
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('delayed')]);
      const delayMs = delayFor(a);
      await release(a, await takeA(a, 'lease'), delayMs);
      await nothing(b, 'right after a release with a delay');
      await pass(harness, delayMs / 2);
      await nothing(b, 'before the delay is over');
      await pass(harness, delayMs / 2 + 2 * a.capabilities.ledger.clockErrorMs + slack(harness, a.leaseMs));
      const again = await takeA(b, 'lease');
      assert.deepEqual([again.token, again.record.failures, again.record.attempt], [2, 1, 2]);
      await finish(b, again);
      await lapse(b);
      await nothing(a, 'besides the one that came back');
    },
  },
  {
    name: 'where only a send keeps a delay, a released task comes back as a copy that bears its id and token',
    needs: byCopy,
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('copied')]);
      const delayMs = delayFor(a);
      const first = await takeA(a, 'lease');
      await release(a, first, delayMs);
      await pass(harness, delayMs + 2 * a.capabilities.ledger.clockErrorMs + slack(harness, a.leaseMs));
      const again = await takeA(b, 'lease');
      assert.notEqual(again.held.delivery.messageId, first.held.delivery.messageId);
      assert.equal(again.message.carriedToken, 1);
      assert.equal(again.held.delivery.attributes['leaseholdtaskid'], 'copied');
    },
  },
  {
    name: 'where only a send keeps a delay, a copy that the broker does not take leaves the task in the queue',
    needs: byCopy,
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('not copied')]);
      const delayMs = delayFor(a);
      const first = await takeA(a, 'lease');
      const refused = a.queueFaults.on('send', failBefore('denied'));
      await release(a, first, delayMs);
      assert.equal(refused.hits, 1);
      await pass(harness, delayMs + 2 * a.capabilities.ledger.clockErrorMs + slack(harness, a.leaseMs));
      assert.equal((await takeA(b, 'lease')).token, 2);
    },
  },
  {
    name: 'where the broker keeps no delay at all, a task released with one is not started before it',
    needs: (capabilities) => longestDelay(capabilities) === 0,
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('kept')]);
      const delayMs = delayFor(a);
      await release(a, await takeA(a, 'lease'), delayMs);
      const busy = await takeA(b, 'busy');
      assert.ok(busy.waitMs > 0 && busy.waitMs <= delayMs + 2 * a.capabilities.ledger.clockErrorMs);
      await pass(harness, delayMs + 2 * a.capabilities.ledger.clockErrorMs + slack(harness, a.leaseMs) / 2);
      const again = await adopt(b, busy.held);
      assert.ok(again.kind === 'lease', `the task turned out as ${again.kind}`);
      assert.equal(again.token, 2);
    },
  },
  {
    name: 'a busy duplicate is neither run nor acknowledged, and one of the two is run when the owner dies',
    async run(harness) {
      const [a, b, c] = [await start(harness, 'a'), await start(harness, 'b'), await start(harness, 'c')];
      await post(a, [taskMessage('doubled'), taskMessage('doubled')]);
      await takeA(a, 'lease');
      const busy = await takeA(b, 'busy');
      assert.ok(busy.waitMs > 0, 'the owner has time left');
      await drain(b);
      assert.deepEqual(b.queueFaults.callsOf('complete'), []);
      await lapse(a);
      const [one, other] = (await take(c, 2)).toSorted((x, y) => (x.kind < y.kind ? 1 : -1));
      assert.ok(one?.kind === 'lease' && other?.kind === 'busy', `${one?.kind} and ${other?.kind}`);
      assert.equal(one.token, 2);
      await finish(c, one);
      assert.equal((await adopt(c, other.held)).kind, 'replay');
      await drain(c);
      await lapse(c);
      await nothing(b, 'of a task that is settled');
    },
  },
  {
    name: 'a delivery of a settled task is acknowledged with its receipt, and follow-ups that were not sent are sent',
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('parent')]);
      const lease = await takeA(a, 'lease');
      a.queueFaults.on('send', failBefore('denied'));
      const next = [{ taskId: 'parent:next:0', type: 'follow-up', idempotencyKey: 'parent:next:0', input: { n: 1 } }];
      assert.equal(await settle(a, lease, 'done', { next }), 'settled');
      await drain(a);
      assert.deepEqual((await recordOf(a, 'parent')).next, next);
      await lapse(a);
      const replay = await takeA(b, 'replay');
      assert.deepEqual([replay.taskId, replay.receipt?.token, replay.receipt?.externalId], ['parent', 1, 'a']);
      await drain(b);
      assert.equal((await recordOf(b, 'parent')).next, undefined);
      const child = await takeA(b, 'lease');
      assert.deepEqual([child.taskId, child.message.payload], ['parent:next:0', { n: 1 }]);
      await finish(b, child);
      await lapse(b);
      await nothing(a, 'of tasks that are settled');
    },
  },
  {
    name: 'field case 38: a task that just fits, in bytes, comes back whole; one byte more is refused alone, unsent',
    needs: ({ broker }) => broker.maxBodyBytes <= 4 * 2 ** 20,
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      const task = { type: 'contract-task', taskId: 'large', idempotencyKey: 'large' };
      const { body, attributes } = cloudEvents().encode({ ...task, payload: '' });
      const room =
        a.capabilities.broker.maxBodyBytes -
        messageBytes({ body, attributes: { ...attributes, leaseholdtaskid: 'large' } });
      assert.ok(room >= 4, 'the queue takes no task at all');
      const input = '中'.repeat(Math.floor(room / 3)) + 'x'.repeat(room % 3);
      const outcomes = await ends(
        a,
        a.broker.enqueue([
          { ...task, input: `${input}y` },
          { ...task, input },
        ]),
        'an enqueue',
      );
      assert.deepEqual(
        outcomes.map(({ ok }) => ok),
        [false, true],
      );
      const lease = await takeA(b, 'lease');
      assert.ok(lease.message.payload === input, 'the largest payload changed on its way');
      await nothing(a, 'of a task that was refused');
    },
  },
  {
    name: 'field case 36, I9: what cannot be read is dead-lettered alone, with its reason, and the rest runs',
    needs: ({ broker }) => broker.deadLetter !== 'none',
    async run(harness) {
      const a = await start(harness, 'a');
      const bad = (text: string) => taskMessage('unread', { body: bytes.encode(text) });
      await post(a, [taskMessage('first'), bad('{'), bad('[]'), taskMessage('last')]);
      const taken = await take(a, 4);
      const told = taken.map((one) => (one.kind === 'handled' ? `${one.why} ${one.acknowledged}` : one.taskId));
      assert.deepEqual(told.sort(), ['first', 'last', 'undecodable true', 'undecodable true']);
      await drain(a);
      const letters = await harness.deadLetters();
      const text = new TextDecoder();
      assert.deepEqual(letters.map(({ body }) => text.decode(body)).sort(), ['[]', '{']);
      for (const { reason } of letters) assert.equal(reason, 'undecodable');
    },
  },
  {
    name: 'field case 36, I9: without a dead-letter queue what cannot be read is kept, and the rest runs',
    needs: ({ broker }) => broker.deadLetter === 'none' && broker.maxBatch.receive >= 3,
    async run(harness) {
      const a = await start(harness, 'a');
      await post(a, [taskMessage('unread', { body: bytes.encode('{') }), taskMessage('first'), taskMessage('last')]);
      const [unread, ...good] = (await take(a, 3)).toSorted((x, y) => (x.kind < y.kind ? -1 : 1));
      assert.ok(unread?.kind === 'handled' && unread.why === 'undecodable' && !unread.acknowledged);
      for (const lease of good) {
        assert.ok(lease.kind === 'lease', `a good message turned out as ${lease.kind}`);
        await finish(a, lease);
      }
      await pass(harness, Math.min(a.capabilities.broker.releaseDelayMs, 900_000));
      await lapse(a);
      assert.equal((await takeA(a, 'handled')).why, 'undecodable');
    },
  },
  {
    name: 'field case 44: a released task of a group is run again, in place, before the next of its group',
    needs: ({ broker }) => broker.ordering,
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await enqueue(a, ['A1', 'A2'], 'A');
      const first = await takeA(a, 'lease');
      assert.equal(first.taskId, 'A1');
      await nothing(b, 'while A1 is in flight');
      const sends = a.queueFaults.callsOf('send').length;
      await release(a, first, 0);
      assert.equal(a.queueFaults.callsOf('send').length, sends, 'with ordering nothing is released by a copy');
      const again = await takeA(b, 'lease');
      assert.deepEqual([again.taskId, again.token], ['A1', 2]);
      await nothing(a, 'while A1 is in flight again');
      await finish(b, again);
      assert.equal((await takeA(a, 'lease')).taskId, 'A2');
    },
  },
  {
    name: 'a task that was cancelled before its first claim is acknowledged and never run',
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      const client = createTaskClient({ ledger: a.ledger, broker: a.broker, clock: harness.clock });
      const [outcome] = await ends(a, client.cancel('never'), 'a cancellation');
      assert.equal(outcome?.outcome, 'cancelled');
      await enqueue(a, ['never']);
      const { why, acknowledged } = await takeA(b, 'handled');
      assert.deepEqual([why, acknowledged], ['cancelled', true]);
      await drain(b);
      await lapse(b);
      await nothing(a, 'of a cancelled task');
      assert.equal((await recordOf(a, 'never')).state, 'cancelled');
    },
  },
  {
    name: 'I1: a message that was sent again never restarts the tokens of a task whose record is gone',
    async run(harness) {
      const a = await start(harness, 'a');
      await post(a, [taskMessage('gone', { attributes: { leaseholdtaskid: 'gone', leaseholdtoken: '3' } })]);
      const { why, acknowledged } = await takeA(a, 'handled');
      assert.equal(why, 'older-than-ledger');
      assert.equal(acknowledged, a.capabilities.broker.deadLetter !== 'none');
      assert.equal((await look(a, 'gone')).record, undefined);
    },
  },
  {
    name: 'I1: a message older than the retention of the ledger starts nothing, where the broker stamps its messages',
    async run(harness) {
      const a = await start(harness, 'a', { retentionMs: 3_000 });
      await post(a, [taskMessage('old')]);
      await pass(harness, 3_000 + 2 * a.capabilities.ledger.clockErrorMs + slack(harness, 3_000));
      const [got] = await take(a, 1);
      const [received] = a.queueFaults
        .callsOf('receive')
        .flatMap(({ ended }) =>
          ended && 'value' in ended ? (ended.value as readonly { readonly sentAt?: number }[]) : [],
        );
      if (received?.sentAt === undefined) assert.equal(got?.kind, 'lease', 'without a stamp every message is young');
      else assert.ok(got?.kind === 'handled' && got.why === 'older-than-ledger', `the task turned out as ${got?.kind}`);
    },
  },
];
