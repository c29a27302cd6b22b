import assert from 'node:assert/strict';
import type { LedgerCase } from './conformance-case.ts';
import { after, claimed, create, put, refused, same, shortLease, withExpiry } from './ledger-steps.ts';
import { never, outlast, pass } from './waiting.ts';

/** The store's own clock decides what is live and what has lapsed, inside the request. */
export const ledgerLeaseCases: readonly LedgerCase[] = [
  {
    name: 'the expiry is stamped from the store’s own clock: its latest now plus the lease',
    async run(harness) {
      const driver = await harness.open();
      const outcome = await driver.put(claimed('stamped'), { ms: 60_000 }, { version: 0 }, never());
      assert.ok(outcome.ok);
      const stamp = outcome.record.leaseExpiresAt ?? Number.NaN;
      const tolerance = driver.capabilities.clockErrorMs + (harness.advance ? 0 : 1_000);
      assert.ok(
        Math.abs(stamp - (outcome.now.latest + 60_000)) <= tolerance,
        `stamped ${stamp - outcome.now.latest} ms ahead`,
      );
    },
  },
  {
    name: 'a stamp never lies beyond notBeyond: a renewal that arrives late is no longer than one that arrives at once',
    async run(harness) {
      const driver = await harness.open();
      const one = await create(driver, claimed('bounded'), 60_000);
      const { now } = await driver.get('bounded', never());
      const notBeyond = now.latest + 20_000;
      const two = await put(driver, after(one, {}), { ms: 60_000, notBeyond }, { version: 1, lease: 'live' });
      assert.equal(two.leaseExpiresAt, notBeyond);
      const three = await put(
        driver,
        after(two, {}),
        { ms: 30_000, notBeyond: now.latest + 900_000 },
        { version: 2, lease: 'live' },
      );
      const tolerance = driver.capabilities.clockErrorMs + (harness.advance ? 0 : 5_000);
      assert.ok(
        Math.abs((three.leaseExpiresAt ?? 0) - now.latest - 30_000) <= tolerance,
        'the earlier of the two counts',
      );
    },
  },
  {
    name: 'I7: a renewal whose bound has passed holds nothing',
    async run(harness) {
      const driver = await harness.open();
      const one = await create(driver, claimed('too late'), 60_000);
      const { now } = await driver.get('too late', never());
      const notBeyond = now.earliest - 1;
      const two = await put(driver, after(one, {}), { ms: 60_000, notBeyond }, { version: 1, lease: 'live' });
      assert.equal(two.leaseExpiresAt, notBeyond);
      await refused(driver, after(two, {}), { ms: 60_000 }, { version: 2, lease: 'live' }, two);
      await put(driver, after(two, { fencingToken: 2 }), { ms: 60_000 }, { version: 2, lease: 'lapsed' });
    },
  },
  {
    name: 'without a stamp the expiry stays as it was, or goes when the record has none',
    async run(harness) {
      const driver = await harness.open();
      const one = await create(driver, claimed('kept'), 60_000);
      await pass(harness, 100);
      const two = await put(driver, after(one, { stage: 'commit' }), undefined, { version: 1, lease: 'live' });
      assert.equal(two.leaseExpiresAt, one.leaseExpiresAt);
      const three = await put(driver, withExpiry(after(two, { state: 'queued' }), undefined), undefined, {
        version: 2,
        lease: 'any',
      });
      assert.equal(three.leaseExpiresAt, undefined);
      assert.ok(!('leaseExpiresAt' in three));
    },
  },
  {
    name: 'a stamp wins over an expiry in the record: a worker cannot choose its own',
    async run(harness) {
      const driver = await harness.open();
      const outcome = await driver.put(
        claimed('greedy', { leaseExpiresAt: 9_999_999_999_999 }),
        { ms: 60_000 },
        { version: 0 },
        never(),
      );
      assert.ok(outcome.ok);
      assert.ok((outcome.record.leaseExpiresAt ?? Number.NaN) < outcome.now.latest + 120_000);
    },
  },
  {
    name: 'a lease is renewed while it is live, over and over',
    async run(harness) {
      const [driver, other] = [await harness.open(), await harness.open()];
      const leaseMs = shortLease(harness, driver);
      let record = await create(driver, claimed('renewed'), leaseMs);
      for (let beat = 1; beat <= 4; beat++) {
        await pass(harness, leaseMs / 3);
        record = await put(
          driver,
          after(record, { renewalCount: beat }),
          { ms: leaseMs },
          { version: beat, lease: 'live' },
        );
      }
      await refused(
        other,
        after(record, { fencingToken: 2 }),
        { ms: leaseMs },
        { version: 5, lease: 'lapsed' },
        record,
      );
    },
  },
  {
    name: 'I7: a renewal of a lapsed lease is refused, even when nobody took it over',
    async run(harness) {
      const driver = await harness.open();
      const leaseMs = shortLease(harness, driver);
      const one = await create(driver, claimed('lapsed'), leaseMs);
      await outlast(harness, leaseMs, driver.capabilities.clockErrorMs);
      await refused(driver, after(one, { renewalCount: 1 }), { ms: leaseMs }, { version: 1, lease: 'live' }, one);
      await refused(driver, after(one, { state: 'settled' }), undefined, { version: 1, lease: 'live' }, one);
    },
  },
  {
    name: 'a live lease cannot be taken over; a lapsed one can, and then its old owner’s write is refused',
    async run(harness) {
      const [driver, other] = [await harness.open(), await harness.open()];
      const leaseMs = shortLease(harness, driver);
      const one = await create(driver, claimed('taken over'), leaseMs);
      const takeover = after(one, { fencingToken: 2, attempt: 2, leaseOwner: 'suite/2#b', opId: 'takeover' });
      await refused(other, takeover, { ms: leaseMs }, { version: 1, lease: 'lapsed' }, one);
      await pass(harness, leaseMs / 2);
      await refused(other, takeover, { ms: leaseMs }, { version: 1, lease: 'lapsed' }, one);
      await outlast(harness, leaseMs / 2, driver.capabilities.clockErrorMs);
      const two = await put(other, takeover, { ms: 60_000 }, { version: 1, lease: 'lapsed' });
      await refused(driver, after(one, { state: 'settled' }), undefined, { version: 1, lease: 'live' }, two);
      await refused(driver, after(one, { state: 'settled' }), undefined, { version: 1, lease: 'any' }, two);
    },
  },
  {
    name: 'a record that nobody holds counts as lapsed, never as live',
    async run(harness) {
      const driver = await harness.open();
      const one = await put(driver, claimed('free', { state: 'queued' }), undefined, { version: 0 });
      assert.equal(one.leaseExpiresAt, undefined);
      await refused(driver, after(one, {}), { ms: 60_000 }, { version: 1, lease: 'live' }, one);
      await put(
        driver,
        after(one, { state: 'running', fencingToken: 2 }),
        { ms: 60_000 },
        { version: 1, lease: 'lapsed' },
      );
    },
  },
  {
    name: 'any lease is accepted where the writer says so, live or lapsed',
    async run(harness) {
      const driver = await harness.open();
      const leaseMs = shortLease(harness, driver);
      const one = await create(driver, claimed('any'), leaseMs);
      const two = await put(driver, after(one, { cancelRequested: true }), undefined, { version: 1, lease: 'any' });
      await outlast(harness, leaseMs, driver.capabilities.clockErrorMs);
      const three = await put(driver, after(two, { failures: 1 }), undefined, { version: 2, lease: 'any' });
      same(withExpiry(three, undefined), withExpiry(after(two, { failures: 1 }), undefined), 'as written');
    },
  },
  {
    name: 'the store’s time goes on with the clock and never back',
    async run(harness) {
      const [driver, other] = [await harness.open(), await harness.open()];
      const first = (await driver.get('any', never())).now;
      await pass(harness, 1_500);
      const second = (await other.get('any', never())).now;
      const tolerance = driver.capabilities.clockErrorMs + (harness.advance ? 1 : 3_000);
      const moved = second.latest - first.latest;
      assert.ok(
        moved >= 1_500 - driver.capabilities.clockErrorMs - 1 && moved <= 1_500 + tolerance,
        `moved by ${moved} ms`,
      );
    },
  },
];
