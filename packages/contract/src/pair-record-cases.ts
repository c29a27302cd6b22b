import assert from 'node:assert/strict';
import type { Lease } from '@leasehold/core';
import { failBefore } from '@leasehold/core/testing';
import type { DeadLetter, PairCapabilities, PairCase, PairHarness } from './conformance-case.ts';
import {
  drain,
  ends,
  finish,
  lapse,
  nothing,
  overwrite,
  post,
  recordOf,
  start,
  takeA,
  taskMessage,
} from './pair-steps.ts';
import type { Process } from './pair-steps.ts';

const ERROR = { errorClass: 'permanent', code: 'E2', message: 'it cannot be done' };
const FUTURE = { future_field: { of: ['a newer', 'version', 1, null] }, __proto___: 'odd', other_field: true };
const hasDeadLetters = ({ broker }: PairCapabilities): boolean => broker.deadLetter !== 'none';

async function deadLetter(process: Process, lease: Lease): Promise<void> {
  assert.equal(await ends(process, process.broker.deadLetter(lease, ERROR), 'a dead-lettering'), 'done');
  await drain(process);
}
async function letters(harness: PairHarness, count: number): Promise<readonly DeadLetter[]> {
  const found = await harness.deadLetters();
  assert.equal(found.length, count, `${found.length} messages lie in the dead-letter queue, not ${count}`);
  return found;
}
/** As the provider's own redrive button does: the same message, with its attributes. */
const movedBack = (process: Process, { body, attributes }: DeadLetter): Promise<void> =>
  post(process, [taskMessage('', { body, attributes })]);

/** What has to outlive the owner: dead letters, checkpoints, and what this version does not know. */
export const pairRecordCases: readonly PairCase[] = [
  {
    name: 'a dead-lettering that ended between its two halves is completed by the next delivery',
    needs: hasDeadLetters,
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('halved')]);
      const lease = await takeA(a, 'lease');
      a.queueFaults.on('reject', failBefore('denied'));
      await deadLetter(a, lease);
      const half = await recordOf(a, 'halved');
      assert.deepEqual([half.state, half.deadLetterSent, half.lastError], ['dead_lettered', false, ERROR]);
      await letters(harness, 0);
      await lapse(a);
      const { why, acknowledged } = await takeA(b, 'handled');
      assert.deepEqual([why, acknowledged], ['dead-lettered', true]);
      const [letter] = await letters(harness, 1);
      assert.equal(letter?.reason, ERROR.errorClass);
      assert.equal((await recordOf(b, 'halved')).deadLetterSent, true);
      await lapse(b);
      await nothing(a, 'of a dead-lettered task');
    },
  },
  {
    name: 'without a dead-letter queue a dead-lettered task stays in the queue and is not run again',
    needs: (capabilities) => !hasDeadLetters(capabilities) && capabilities.broker.releaseDelayMs <= 900_000,
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('buried')]);
      await deadLetter(a, await takeA(a, 'lease'));
      await lapse(a);
      const { why, acknowledged } = await takeA(b, 'handled');
      assert.deepEqual([why, acknowledged], ['dead-lettered', false]);
      assert.equal((await recordOf(b, 'buried')).fencingToken, 1);
    },
  },
  {
    name: 'a redrive by the current token runs the task again with a higher token, and one by an old token does not',
    needs: hasDeadLetters,
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('redriven')]);
      await deadLetter(a, await takeA(a, 'lease'));
      const [first] = await letters(harness, 1);
      assert.ok(first);
      assert.deepEqual([first.attributes['leaseholdtaskid'], first.attributes['leaseholdtoken']], ['redriven', '1']);
      await movedBack(a, first);
      const again = await takeA(b, 'lease');
      assert.deepEqual([again.token, again.record.failures], [2, 0]);
      await deadLetter(b, again);
      await movedBack(a, first);
      const { why } = await takeA(a, 'handled');
      assert.equal(why, 'dead-lettered');
      const { state, fencingToken } = await recordOf(a, 'redriven');
      assert.deepEqual([state, fencingToken], ['dead_lettered', 2]);
    },
  },
  {
    name: 'a hand-off comes as a delivery of its own, with the checkpoint, and does not count as a failure',
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('handed')]);
      const first = await takeA(a, 'lease');
      const checkpoint = { inline: { done: [1, 2, 3] } };
      const written = first.task.apply({ type: 'checkpoint', checkpoint, leaseMs: a.leaseMs }, { repeat: true });
      assert.ok('applied' in (await ends(a, written, 'a checkpoint')));
      const why = { reason: 'the cap is near', progressed: true };
      assert.equal(await ends(a, a.broker.handOff(first, why), 'a hand-off'), 'done');
      await drain(a);
      const second = await takeA(b, 'lease');
      assert.notEqual(second.held.delivery.messageId, first.held.delivery.messageId);
      assert.deepEqual([second.token, second.record.failures, second.message.carriedToken], [2, 0, 1]);
      assert.deepEqual(second.record.checkpoint, checkpoint);
      if (b.capabilities.broker.deliveryCount) assert.equal(second.held.delivery.deliveryCount, 1);
      await finish(b, second);
      await lapse(b);
      await nothing(a, 'besides the delivery that was handed on');
    },
  },
  {
    name: 'fields of a newer minor version survive the whole life of a task',
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('newer minor')]);
      const first = await takeA(a, 'lease');
      const why = { error: ERROR, failure: false };
      assert.equal(await ends(a, a.broker.release(first, why), 'a release'), 'done');
      await drain(a);
      await overwrite(a, { ...(await recordOf(a, 'newer minor')), schemaVersion: '1.99', extra: FUTURE });
      const second = await takeA(b, 'lease');
      const renewed = b.broker.renew(second, { stage: 'verify', reason: 'reading back' });
      assert.equal(await ends(b, renewed, 'a renewal'), 'held');
      await finish(b, second);
      const { state, schemaVersion, extra } = await recordOf(b, 'newer minor');
      assert.deepEqual([state, schemaVersion], ['settled', '1.99']);
      assert.deepEqual(extra, FUTURE);
    },
  },
  {
    name: 'a record of a newer major version is left untouched, and its message in the queue',
    async run(harness) {
      const [a, b] = [await start(harness, 'a'), await start(harness, 'b')];
      await post(a, [taskMessage('newer major')]);
      const first = await takeA(a, 'lease');
      const why = { error: ERROR, failure: false };
      assert.equal(await ends(a, a.broker.release(first, why), 'a release'), 'done');
      await drain(a);
      const newer = { ...(await recordOf(a, 'newer major')), schemaVersion: '2.0', extra: FUTURE };
      const written = await overwrite(a, newer);
      const { why: cause, acknowledged } = await takeA(b, 'handled');
      assert.deepEqual([cause, acknowledged], ['newer-schema', false]);
      assert.deepEqual(await recordOf(b, 'newer major'), written);
      assert.deepEqual(b.queueFaults.callsOf('complete'), []);
    },
  },
];
