import assert from 'node:assert/strict';
import type { BrokerCase } from './conformance-case.ts';
import { longLease, message, nothing, send, take, takeOne, texts, textOf } from './broker-steps.ts';
import { attempt, never, pass, within } from './waiting.ts';

const CODES: readonly string[] = ['throttled', 'unavailable', 'not-found', 'denied', 'invalid', 'unknown'];

/** What goes in comes out: bodies, attributes, sizes, batches, groups, delays. */
export const deliveryCases: readonly BrokerCase[] = [
  {
    name: 'a body comes back byte for byte, with its attributes',
    async run(harness) {
      const driver = await harness.open();
      const body = Uint8Array.from({ length: 512 }, (_, index) => (index * 7) % 256);
      const attributes = {
        leaseholdtaskid: 'task-1',
        leaseholdtoken: '7',
        traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
        note: 'déjà vu 中文 😀 "quoted" \\ back',
      };
      const [id] = await send(driver, [{ body, attributes }]);
      const other = await harness.open();
      const delivery = await takeOne(harness, other);
      assert.deepEqual([...delivery.body], [...body]);
      for (const [name, value] of Object.entries(attributes)) assert.equal(delivery.attributes[name], value, name);
      assert.equal(delivery.messageId, id, 'the delivery bears the id that send answered');
      assert.ok(
        delivery.leaseMs > 0 && delivery.leaseMs <= driver.capabilities.leaseMs.max,
        `granted ${delivery.leaseMs} ms`,
      );
    },
  },
  {
    name: 'a full batch is answered one outcome per message, in the order asked',
    async run(harness) {
      const driver = await harness.open();
      const count = Math.min(driver.capabilities.maxBatch.send, 25);
      const bodies = Array.from({ length: count }, (_, index) => `message ${index}`);
      const ids = await send(
        driver,
        bodies.map((body) => message(body)),
      );
      assert.equal(new Set(ids).size, count, 'message ids are unique');
      const byId = new Map(
        (await take(harness, driver, count)).map((delivery) => [delivery.messageId, textOf(delivery)]),
      );
      assert.deepEqual(
        ids.map((id) => byId.get(id)),
        bodies,
      );
    },
  },
  {
    name: 'an empty queue is an empty array, at once and after waiting',
    async run(harness) {
      const driver = await harness.open();
      const leaseMs = longLease(driver.capabilities);
      assert.deepEqual(await driver.receive({ max: 1, leaseMs, waitMs: 0 }, never()), []);
      const waiting = driver.receive({ max: 1, leaseMs, waitMs: 2_000 }, never());
      assert.deepEqual(await within(harness, waiting, 7_000, 'a receive that waits 2 s'), []);
    },
  },
  {
    name: 'receive gives no more than it was asked for',
    async run(harness) {
      const driver = await harness.open();
      await send(
        driver,
        ['a', 'b', 'c'].map((body) => message(body)),
      );
      const first = await take(harness, driver, 1);
      assert.equal(first.length, 1);
      const rest = await take(harness, driver, 2);
      assert.deepEqual([...first, ...rest].map(textOf).sort(), ['a', 'b', 'c']);
    },
  },
  {
    name: 'a receive that waits is woken by a message another process sends',
    async run(harness) {
      const [driver, sender] = [await harness.open(), await harness.open()];
      const waiting = driver.receive({ max: 1, leaseMs: longLease(driver.capabilities), waitMs: 15_000 }, never());
      await pass(harness, 300);
      await send(sender, [message('late')]);
      const got = await within(harness, waiting, 5_000, 'a receive that a message should wake');
      assert.deepEqual(got.map(textOf), ['late']);
    },
  },
  {
    name: 'a delayed message is not handed out before its time',
    needs: (capabilities) => capabilities.sendDelayMs > 0,
    async run(harness) {
      const driver = await harness.open();
      const delayMs = Math.min(driver.capabilities.sendDelayMs, harness.advance ? 5_000 : 2_000);
      await send(driver, [message('later', { delayMs }), message('now')]);
      assert.equal(textOf(await takeOne(harness, driver)), 'now');
      await nothing(driver, 'before the delay is over');
      await pass(harness, delayMs + (harness.advance ? 1 : 1_000));
      assert.equal(textOf(await takeOne(harness, driver)), 'later');
    },
  },
  {
    name: 'field case 38: a body of the longest length is measured in bytes and comes back whole',
    needs: (capabilities) => capabilities.maxBodyBytes <= 32 * 2 ** 20,
    async run(harness) {
      const driver = await harness.open();
      const limit = driver.capabilities.maxBodyBytes;
      const body = '中'.repeat(Math.floor(limit / 3)) + 'x'.repeat(limit % 3);
      await send(driver, [message(body)]);
      assert.ok(textOf(await takeOne(harness, driver)) === body, 'the longest body changed on its way');
    },
  },
  {
    name: 'field case 38: a body beyond the limit is refused, never cut',
    needs: (capabilities) => capabilities.maxBodyBytes <= 32 * 2 ** 20,
    async run(harness) {
      const driver = await harness.open();
      // Shorter than the limit in characters, longer in bytes.
      const body = '中'.repeat(Math.floor(driver.capabilities.maxBodyBytes / 3) + 1);
      const sent = await attempt(driver.send([message(body)], never()));
      if ('error' in sent) assert.equal(driver.classify(sent.error), 'invalid');
      else assert.deepEqual(sent.value, [{ failed: 'invalid' }]);
      await nothing(driver, 'of a message that was refused');
    },
  },
  {
    name: 'a batch of the greatest total size is accepted',
    needs: ({ maxBatchBytes, maxBatch }) =>
      maxBatchBytes !== undefined && maxBatchBytes <= 32 * 2 ** 20 && maxBatch.send > 1,
    async run(harness) {
      const driver = await harness.open();
      const { maxBatchBytes = 0, maxBodyBytes, maxBatch } = driver.capabilities;
      const count = Math.min(maxBatch.send, Math.max(2, Math.ceil(maxBatchBytes / maxBodyBytes)));
      const size = Math.min(maxBodyBytes, Math.floor(maxBatchBytes / count));
      await send(
        driver,
        Array.from({ length: count }, () => message('x'.repeat(size))),
      );
      for (const delivery of await take(harness, driver, count)) assert.equal(delivery.body.byteLength, size);
    },
  },
  {
    name: 'field case 44: of a group one message at a time is in flight, and in order; other groups go on',
    needs: (capabilities) => capabilities.ordering,
    async run(harness) {
      const [driver, other] = [await harness.open(), await harness.open()];
      await send(
        driver,
        ['A1', 'A2', 'B1', 'A3'].map((body) => message(body, { groupId: body.charAt(0) })),
      );
      const first = await takeOne(harness, driver);
      const second = await takeOne(harness, other);
      assert.deepEqual([textOf(first), textOf(second)].sort(), ['A1', 'B1']);
      await nothing(driver, 'while one of each group is in flight');
      const a1 = textOf(first) === 'A1' ? first : second;
      assert.equal(a1.groupId, 'A');
      const holder = a1 === first ? driver : other;
      assert.deepEqual(await holder.release([a1.handle], 0, never()), ['done']);
      const again = await takeOne(harness, other);
      assert.equal(textOf(again), 'A1', 'a released message comes back before the next of its group');
      assert.deepEqual(await other.complete([again.handle], never()), ['done']);
      const next = await takeOne(harness, driver);
      assert.equal(textOf(next), 'A2');
      await nothing(other, 'while A2 is in flight');
      assert.deepEqual(await driver.complete([next.handle], never()), ['done']);
      assert.equal(textOf(await takeOne(harness, driver)), 'A3');
    },
  },
  {
    name: 'without ordering a group holds nothing back',
    needs: (capabilities) => !capabilities.ordering,
    async run(harness) {
      const driver = await harness.open();
      await send(
        driver,
        ['A1', 'A2', 'B1'].map((body) => message(body, { groupId: body.charAt(0) })),
      );
      const taken = await take(harness, driver, 3);
      assert.deepEqual(taken.map(textOf).sort(), ['A1', 'A2', 'B1']);
    },
  },
  {
    name: 'two processes never hold one message at once, however many receive',
    async run(harness) {
      const drivers = [await harness.open(), await harness.open(), await harness.open()];
      const bodies = Array.from({ length: 40 }, (_, index) => `message ${index}`);
      const [first] = drivers;
      assert.ok(first);
      await send(
        first,
        bodies.map((body) => message(body)),
      );
      const max = Math.min(3, first.capabilities.maxBatch.receive);
      const leaseMs = longLease(first.capabilities);
      const receivers = Array.from({ length: 12 }, async (_, index) => {
        const driver = drivers[index % drivers.length] as typeof first;
        const mine: string[] = [];
        for (let empty = 0; empty < 3 && mine.length <= bodies.length;) {
          const got = await driver.receive({ max, leaseMs, waitMs: 0 }, never());
          if (got.length === 0) empty++;
          mine.push(...got.map(textOf));
        }
        return mine;
      });
      const handedOut = (await Promise.all(receivers)).flat();
      handedOut.push(...(await texts(first)));
      assert.deepEqual(handedOut.sort(), [...bodies].sort(), 'each message went to exactly one receiver');
    },
  },
  {
    name: 'classify gives a known code for anything, and never throws',
    async run(harness) {
      const driver = await harness.open();
      for (const error of [
        undefined,
        null,
        'text',
        7,
        {},
        new Error('x'),
        Object.assign(new Error('y'), { code: 'Z', name: 'Q' }),
      ]) {
        assert.ok(CODES.includes(driver.classify(error)), `classify gave ${driver.classify(error)}`);
      }
      assert.equal(driver.classify(new Error('never seen before')), 'unknown');
    },
  },
];
