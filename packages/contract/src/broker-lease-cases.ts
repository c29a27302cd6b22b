import assert from 'node:assert/strict';
import type { BrokerCase } from './conformance-case.ts';
import { longLease, message, nothing, send, shortLease, take, takeOne, textOf } from './broker-steps.ts';
import { attempt, never, pass, slack, within } from './waiting.ts';

/** How long a delivery is held, and what its handle is worth afterwards. */
export const leaseCases: readonly BrokerCase[] = [
  {
    name: 'a message is held for its lease and then comes back, to anybody, under a new handle',
    async run(harness) {
      const [driver, other] = [await harness.open(), await harness.open()];
      await send(driver, [message('once')]);
      const held = await takeOne(harness, driver, shortLease(harness, driver.capabilities));
      await pass(harness, held.leaseMs / 2);
      await nothing(other, 'while the lease runs');
      await pass(harness, held.leaseMs / 2 + slack(harness, held.leaseMs));
      const again = await takeOne(harness, other);
      assert.equal(textOf(again), 'once');
      assert.equal(again.messageId, held.messageId);
      assert.notDeepEqual(again.handle, held.handle);
    },
  },
  {
    name: 'a receive that waits is woken when a lease lapses',
    async run(harness) {
      const [driver, other] = [await harness.open(), await harness.open()];
      await send(driver, [message('lapses')]);
      const held = await takeOne(harness, driver, shortLease(harness, driver.capabilities));
      const waitMs = held.leaseMs + 5_000;
      const waiting = other.receive({ max: 1, leaseMs: longLease(other.capabilities), waitMs }, never());
      const got = await within(harness, waiting, waitMs, 'a receive that a lapse should wake');
      assert.deepEqual(got.map(textOf), ['lapses']);
    },
  },
  {
    name: 'a receive that waits is woken by a release',
    async run(harness) {
      const [driver, other] = [await harness.open(), await harness.open()];
      await send(driver, [message('handed back')]);
      const held = await takeOne(harness, driver);
      const waiting = other.receive({ max: 1, leaseMs: longLease(other.capabilities), waitMs: 15_000 }, never());
      await pass(harness, 300);
      assert.deepEqual(await driver.release([held.handle], 0, never()), ['done']);
      const got = await within(harness, waiting, 5_000, 'a receive that a release should wake');
      assert.deepEqual(got.map(textOf), ['handed back']);
    },
  },
  {
    name: 'extend holds a message for its lease from now, not on top of what is left',
    needs: (capabilities) => capabilities.extend,
    async run(harness) {
      const [driver, other] = [await harness.open(), await harness.open()];
      await send(driver, [message('long')]);
      const held = await takeOne(harness, driver, shortLease(harness, driver.capabilities));
      const leaseMs = held.leaseMs;
      await pass(harness, leaseMs * 0.5);
      assert.deepEqual(await driver.extend([held.handle], leaseMs, never()), ['done']);
      await pass(harness, leaseMs * 0.75);
      await nothing(other, 'after the first lease, within the second');
      await pass(harness, leaseMs * 0.25 + slack(harness, leaseMs));
      assert.equal(textOf(await takeOne(harness, other)), 'long');
    },
  },
  {
    name: 'extending one message leaves the others of its batch as they are',
    needs: (capabilities) => capabilities.extend && !capabilities.ordering,
    async run(harness) {
      const driver = await harness.open();
      await send(driver, [message('kept'), message('left')]);
      const taken = await take(harness, driver, 2, shortLease(harness, driver.capabilities));
      const kept = taken.find((delivery) => textOf(delivery) === 'kept');
      assert.ok(kept);
      await pass(harness, kept.leaseMs * 0.6);
      assert.deepEqual(await driver.extend([kept.handle], kept.leaseMs, never()), ['done']);
      await pass(harness, kept.leaseMs * 0.4 + slack(harness, kept.leaseMs));
      assert.equal(textOf(await takeOne(harness, driver)), 'left');
      await nothing(driver, 'of the message that was extended');
    },
  },
  {
    name: 'where a delivery cannot be prolonged, extend never says it was',
    needs: (capabilities) => !capabilities.extend,
    async run(harness) {
      const driver = await harness.open();
      await send(driver, [message('short')]);
      const held = await takeOne(harness, driver, shortLease(harness, driver.capabilities));
      const answer = await attempt(driver.extend([held.handle], held.leaseMs, never()));
      if ('value' in answer) assert.notDeepEqual(answer.value, ['done']);
      await pass(harness, held.leaseMs + slack(harness, held.leaseMs));
      assert.equal(textOf(await takeOne(harness, driver)), 'short');
    },
  },
  {
    name: 'field case 7: a handle whose lease lapsed is told from a good one',
    needs: (capabilities) => capabilities.staleHandle === 'detected',
    async run(harness) {
      const [driver, other] = [await harness.open(), await harness.open()];
      await send(driver, [message('contested')]);
      const stale = await takeOne(harness, driver, shortLease(harness, driver.capabilities));
      await pass(harness, stale.leaseMs + slack(harness, stale.leaseMs));
      if (driver.capabilities.extend) {
        assert.deepEqual(await driver.extend([stale.handle], stale.leaseMs, never()), ['gone'], 'extend, lapsed');
      }
      const fresh = await takeOne(harness, other);
      if (driver.capabilities.extend) {
        assert.deepEqual(await driver.extend([stale.handle], stale.leaseMs, never()), ['gone'], 'extend, taken over');
      }
      assert.deepEqual(await driver.release([stale.handle], 0, never()), ['gone'], 'release');
      assert.deepEqual(await driver.complete([stale.handle], never()), ['gone'], 'complete');
      if (driver.capabilities.deadLetter !== 'none') {
        const why = { reason: 'late', description: 'too late', attributes: {} };
        assert.equal(await driver.reject(stale.handle, why, never()), 'gone', 'reject');
        assert.deepEqual(await harness.deadLetters(), []);
      }
      await nothing(driver, 'by a stale handle, while the new owner holds the message');
      assert.deepEqual(await other.complete([fresh.handle], never()), ['done']);
    },
  },
  {
    name: 'field case 6: where stale handles are not detected, one is answered without an error and the answer proves nothing',
    needs: (capabilities) => capabilities.staleHandle === 'silent',
    async run(harness) {
      const [driver, other] = [await harness.open(), await harness.open()];
      await send(driver, [message('contested')]);
      const stale = await takeOne(harness, driver, shortLease(harness, driver.capabilities));
      await pass(harness, stale.leaseMs + slack(harness, stale.leaseMs));
      const fresh = await takeOne(harness, other, shortLease(harness, driver.capabilities));
      assert.notDeepEqual(fresh.handle, stale.handle);
      const answers = [
        ...(await driver.extend([stale.handle], stale.leaseMs, never())),
        ...(await driver.release([stale.handle], 0, never())),
        ...(await driver.complete([stale.handle], never())),
      ];
      for (const answer of answers) assert.ok(answer === 'done' || answer === 'gone', JSON.stringify(answer));
      const [settled] = await other.complete([fresh.handle], never());
      assert.ok(settled === 'done' || settled === 'gone', JSON.stringify(settled));
      await pass(harness, fresh.leaseMs + slack(harness, fresh.leaseMs));
      await nothing(other, 'after the current owner completed the message');
    },
  },
  {
    name: 'field case 30: a lease beyond the total cap is refused, and the message comes back at the cap',
    needs: ({ totalLeaseMs, leaseMs, extend }) => extend && totalLeaseMs !== undefined && leaseMs.max >= totalLeaseMs,
    async run(harness) {
      const driver = await harness.open();
      const total = driver.capabilities.totalLeaseMs ?? 0;
      await send(driver, [message('capped')]);
      const held = await takeOne(harness, driver, Math.min(total, shortLease(harness, driver.capabilities)));
      await pass(harness, Math.min(held.leaseMs / 2, 2_000));
      const beyond = await attempt(driver.extend([held.handle], total, never()));
      if ('value' in beyond) assert.deepEqual(beyond.value, [{ failed: 'invalid' }]);
      else assert.equal(driver.classify(beyond.error), 'invalid');
      await pass(harness, held.leaseMs + slack(harness, held.leaseMs));
      assert.equal(textOf(await takeOne(harness, driver)), 'capped', 'a refused extend prolongs nothing');
    },
  },
];
