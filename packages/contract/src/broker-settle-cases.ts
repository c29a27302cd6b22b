import assert from 'node:assert/strict';
import type { HandleOutcome } from '@leasehold/core';
import type { BrokerCase } from './conformance-case.ts';
import { longLease, message, nothing, send, shortLease, take, takeOne, texts, textOf } from './broker-steps.ts';
import { attempt, never, pass, slack, within } from './waiting.ts';

/** How a delivery ends: completed, handed back, dead-lettered; and what aborting and closing leave behind. */
export const settleCases: readonly BrokerCase[] = [
  {
    name: 'complete removes a message for good',
    async run(harness) {
      const driver = await harness.open();
      await send(driver, [message('done with')]);
      const held = await takeOne(harness, driver, shortLease(harness, driver.capabilities));
      assert.deepEqual(await driver.complete([held.handle], never()), ['done']);
      await pass(harness, held.leaseMs + slack(harness, held.leaseMs));
      await nothing(driver, 'once completed');
      assert.deepEqual(await harness.deadLetters(), []);
    },
  },
  {
    name: 'field case 22: as many handles as a batch holds are settled in one call, in the order asked',
    async run(harness) {
      const driver = await harness.open();
      const count = Math.min(driver.capabilities.maxBatch.handles, 10);
      await send(
        driver,
        Array.from({ length: count }, (_, index) => message(`message ${index}`)),
      );
      const taken = await take(harness, driver, count);
      const outcomes = await driver.complete(
        taken.map((delivery) => delivery.handle),
        never(),
      );
      assert.deepEqual(
        outcomes,
        taken.map(() => 'done'),
      );
      await nothing(driver, 'once completed');
    },
  },
  {
    name: 'I9: in a batch one bad handle neither fails nor changes the others',
    needs: ({ maxBatch }) => maxBatch.handles >= 3,
    async run(harness) {
      const driver = await harness.open();
      await send(
        driver,
        ['a', 'b', 'c'].map((body) => message(body)),
      );
      const [first, bad, last] = await take(harness, driver, 3);
      assert.ok(first && bad && last);
      const settled = await driver.complete([bad.handle], never());
      assert.deepEqual(settled, ['done']);
      const outcomes = await driver.release([first.handle, bad.handle, last.handle], 0, never());
      assert.equal(outcomes.length, 3);
      const allowed: readonly HandleOutcome[] =
        driver.capabilities.staleHandle === 'silent' ? ['done', 'gone'] : ['gone'];
      assert.ok(allowed.includes(outcomes[1] as HandleOutcome), `the completed one: ${JSON.stringify(outcomes[1])}`);
      assert.deepEqual([outcomes[0], outcomes[2]], ['done', 'done']);
      const back = [textOf(first), textOf(last)].sort();
      assert.deepEqual((await take(harness, driver, 2)).map(textOf).sort(), back);
      await nothing(driver, 'of the completed one');
    },
  },
  {
    name: 'a released message comes back at once, under a new handle, and the old one is worth nothing',
    async run(harness) {
      const [driver, other] = [await harness.open(), await harness.open()];
      await send(driver, [message('back')]);
      const held = await takeOne(harness, driver);
      assert.deepEqual(await driver.release([held.handle], 0, never()), ['done']);
      const again = await takeOne(harness, other);
      assert.equal(again.messageId, held.messageId);
      assert.notDeepEqual(again.handle, held.handle);
      if (driver.capabilities.staleHandle === 'detected') {
        assert.deepEqual(await driver.complete([held.handle], never()), ['gone']);
      }
      assert.deepEqual(await other.complete([again.handle], never()), ['done']);
    },
  },
  {
    name: 'field case 19: a message released with a delay comes back after it, not before',
    needs: (capabilities) => capabilities.releaseDelayMs > 0,
    async run(harness) {
      const [driver, other] = [await harness.open(), await harness.open()];
      const delayMs = Math.min(driver.capabilities.releaseDelayMs, harness.advance ? 40_000 : 2_000);
      await send(driver, [message('later')]);
      const held = await takeOne(harness, driver);
      assert.deepEqual(await driver.release([held.handle], delayMs, never()), ['done']);
      await pass(harness, delayMs / 2);
      await nothing(other, 'before the delay is over');
      await pass(harness, delayMs / 2 + slack(harness, delayMs));
      assert.equal(textOf(await takeOne(harness, other)), 'later');
    },
  },
  {
    name: 'where a release keeps no delay, the message comes back at once all the same',
    needs: (capabilities) => capabilities.releaseDelayMs === 0,
    async run(harness) {
      const driver = await harness.open();
      await send(driver, [message('at once')]);
      const held = await takeOne(harness, driver);
      assert.deepEqual(await driver.release([held.handle], 30_000, never()), ['done']);
      assert.equal(textOf(await takeOne(harness, driver)), 'at once');
    },
  },
  {
    name: 'deliveries are counted from one',
    needs: ({ deliveryCount, maxDeliveries }) => deliveryCount && (maxDeliveries ?? 3) >= 3,
    async run(harness) {
      const driver = await harness.open();
      await send(driver, [message('counted')]);
      for (const count of [1, 2, 3]) {
        const held = await takeOne(harness, driver);
        assert.equal(held.deliveryCount, count);
        await driver.release([held.handle], 0, never());
      }
    },
  },
  {
    name: 'where deliveries are not counted, none is claimed',
    needs: (capabilities) => !capabilities.deliveryCount,
    async run(harness) {
      const driver = await harness.open();
      await send(driver, [message('uncounted')]);
      assert.equal((await takeOne(harness, driver)).deliveryCount, undefined);
    },
  },
  {
    name: 'a rejected message goes to the dead-letter queue with its body, attributes and reason, and nowhere else',
    needs: (capabilities) => capabilities.deadLetter !== 'none',
    async run(harness) {
      const driver = await harness.open();
      await send(driver, [message('中 bad', { attributes: { traceparent: 'kept' } }), message('good')]);
      const taken = await take(harness, driver, 2, shortLease(harness, driver.capabilities));
      const [bad, good] = textOf(taken[0] as (typeof taken)[0]) === 'good' ? [taken[1], taken[0]] : taken;
      assert.ok(bad && good);
      const attributes = { leaseholdtaskid: 'task-9', leaseholdtoken: '3' };
      const why = { reason: 'cannot-decode', description: 'not JSON: “中”', attributes };
      assert.equal(await driver.reject(bad.handle, why, never()), 'done');
      const letters = await harness.deadLetters();
      assert.deepEqual(letters.map(textOf), ['中 bad']);
      const [letter] = letters;
      assert.equal(letter?.reason, 'cannot-decode');
      assert.equal(letter?.description, 'not JSON: “中”');
      for (const [name, value] of Object.entries({ ...attributes, traceparent: 'kept' })) {
        assert.equal(letter?.attributes[name], value, name);
      }
      assert.deepEqual(await driver.complete([good.handle], never()), ['done'], 'I9: its neighbour is not touched');
      await pass(harness, bad.leaseMs + slack(harness, bad.leaseMs));
      await nothing(driver, 'once rejected');
    },
  },
  {
    name: 'after its last delivery the broker moves a message to the dead-letter queue itself',
    needs: ({ maxDeliveries, deadLetter }) =>
      maxDeliveries !== undefined && maxDeliveries <= 20 && deadLetter !== 'none',
    async run(harness) {
      const driver = await harness.open();
      await send(driver, [message('poison')]);
      for (let delivery = 1; delivery <= (driver.capabilities.maxDeliveries ?? 0); delivery++) {
        const held = await takeOne(harness, driver);
        await driver.release([held.handle], 0, never());
      }
      await nothing(driver, 'beyond the last delivery');
      assert.deepEqual((await harness.deadLetters()).map(textOf), ['poison']);
    },
  },
  {
    name: 'without a dead-letter queue a message is never dropped, however often it is delivered',
    needs: ({ maxDeliveries, deadLetter }) => maxDeliveries === undefined || deadLetter === 'none',
    async run(harness) {
      const driver = await harness.open();
      await send(driver, [message('again')]);
      for (let delivery = 0; delivery < 12; delivery++) {
        const held = await takeOne(harness, driver);
        assert.deepEqual(await driver.release([held.handle], 0, never()), ['done']);
      }
      assert.deepEqual(await texts(driver), ['again']);
      assert.deepEqual(await harness.deadLetters(), []);
    },
  },
  {
    name: 'field case 24: an aborted receive takes nothing, or gives what it took',
    async run(harness) {
      const [driver, sender] = [await harness.open(), await harness.open()];
      const leaseMs = longLease(driver.capabilities);
      const ask = { max: 1, leaseMs, waitMs: 10_000 };
      const given: string[] = [];
      const sent: string[] = [];
      for (let round = 0; round < 12; round++) {
        const stop = new AbortController();
        const waiting = attempt(driver.receive(ask, stop.signal));
        const body = `message ${round}`;
        sent.push(body);
        // The abort falls before, beside and after the message.
        if (round % 3 === 0) stop.abort(new Error('stop'));
        const sending = send(sender, [message(body)]);
        if (round % 3 === 1) stop.abort(new Error('stop'));
        await sending;
        if (round % 3 === 2) await pass(harness, 50);
        stop.abort(new Error('stop'));
        const outcome = await within(harness, waiting, 5_000, 'an aborted receive');
        if ('value' in outcome) given.push(...outcome.value.map(textOf));
      }
      const rest = await take(harness, sender, sent.length - given.length);
      assert.deepEqual([...given, ...rest.map(textOf)].sort(), [...sent].sort(), 'taken and dropped');
    },
  },
  {
    name: 'a receive whose signal is aborted beforehand takes nothing',
    async run(harness) {
      const driver = await harness.open();
      await send(driver, [message('still there')]);
      const ask = { max: 1, leaseMs: longLease(driver.capabilities), waitMs: 0 };
      const outcome = await attempt(driver.receive(ask, AbortSignal.abort(new Error('stop'))));
      if ('value' in outcome) assert.deepEqual(outcome.value, []);
      assert.equal(textOf(await takeOne(harness, driver)), 'still there');
    },
  },
  {
    name: 'close ends a receive that waits, and loses nothing',
    async run(harness) {
      const [driver, other] = [await harness.open(), await harness.open()];
      const ask = { max: 1, leaseMs: longLease(driver.capabilities), waitMs: 15_000 };
      const waiting = attempt(driver.receive(ask, never()));
      await pass(harness, 200);
      await within(harness, driver.close(), 5_000, 'close beside a poll');
      const outcome = await within(harness, waiting, 5_000, 'a receive whose driver was closed');
      if ('value' in outcome) assert.deepEqual(outcome.value, []);
      await send(other, [message('for others')]);
      assert.equal(textOf(await takeOne(harness, other)), 'for others');
    },
  },
  {
    name: 'field case 26: a call after close is refused visibly, and a second close is harmless',
    async run(harness) {
      const driver = await harness.open();
      await send(driver, [message('held')]);
      const held = await takeOne(harness, driver);
      await driver.close();
      await driver.close();
      const late = await attempt(driver.complete([held.handle], never()));
      if ('value' in late) assert.notEqual(late.value[0], 'done');
      const sent = await attempt(driver.send([message('too late')], never()));
      if ('value' in sent) assert.ok(!('messageId' in (sent.value[0] ?? {})), 'a closed driver accepted a message');
      const ask = { max: 1, leaseMs: longLease(driver.capabilities), waitMs: 0 };
      assert.ok('error' in (await attempt(driver.receive(ask, never()))), 'a closed driver answered a receive');
    },
  },
];
