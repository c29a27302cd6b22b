import assert from 'node:assert/strict';
import type { EffectRecord, Json } from '@leasehold/core';
import type { LedgerCase } from './conformance-case.ts';
import {
  after,
  awkward,
  AWKWARD_NAMES,
  claimed,
  create,
  everyField,
  invalid,
  put,
  read,
  refused,
  same,
  withExpiry,
} from './ledger-steps.ts';
import { attempt, never } from './waiting.ts';

const LEASE_MS = 60_000;
const CODES: readonly string[] = ['throttled', 'unavailable', 'not-found', 'denied', 'invalid', 'unknown'];

/** A compare-and-set register per task that keeps what it is given. */
export const writeCases: readonly LedgerCase[] = [
  {
    name: 'a record comes back as it was written, with nothing added but the stamp, in this process and another',
    async run(harness) {
      const [driver, other] = [await harness.open(), await harness.open()];
      const stored = await create(driver, everyField(), LEASE_MS);
      same(withExpiry(stored, undefined), everyField(), 'the record that put answers');
      assert.equal(typeof stored.leaseExpiresAt, 'number');
      same(await read(driver, 'whole'), stored, 'read by the writer');
      same(await read(other, 'whole'), stored, 'read by another process');
    },
  },
  {
    name: 'an unknown task reads as no record',
    async run(harness) {
      const driver = await harness.open();
      const { record, now } = await driver.get('nobody', never());
      assert.equal(record, undefined);
      assert.ok(now.earliest <= now.latest, 'the time of an answer is an interval');
      assert.ok(
        now.latest - now.earliest <= driver.capabilities.clockErrorMs,
        `an interval of ${now.latest - now.earliest} ms`,
      );
    },
  },
  {
    name: 'field case 45: of 50 first claims at once one wins, and 49 are shown the winner’s record',
    async run(harness) {
      const drivers = [await harness.open(), await harness.open()];
      const outcomes = await Promise.all(
        Array.from({ length: 50 }, (_, index) => {
          const driver = drivers[index % 2] as (typeof drivers)[0];
          return driver.put(
            claimed('raced', { opId: `op ${index}`, leaseOwner: `owner ${index}` }),
            { ms: LEASE_MS },
            { version: 0 },
            never(),
          );
        }),
      );
      const won = outcomes.flatMap((outcome) => (outcome.ok ? [outcome.record] : []));
      assert.equal(won.length, 1, `${won.length} claims of one task were accepted`);
      for (const outcome of outcomes)
        if (!outcome.ok) same(outcome.current, won[0], 'a refusal carries the winner’s record');
      same(await read(drivers[1] as (typeof drivers)[0], 'raced'), won[0], 'the winner’s record is what stays');
    },
  },
  {
    name: 'I1: of many takeovers of one version at once one wins',
    async run(harness) {
      const drivers = [await harness.open(), await harness.open()];
      const [first] = drivers;
      assert.ok(first);
      const free = await put(first, claimed('contended', { state: 'queued' }), undefined, { version: 0 });
      const outcomes = await Promise.all(
        Array.from({ length: 30 }, (_, index) => {
          const next = after(free, { state: 'running', fencingToken: 2, opId: `op ${index}` });
          return (drivers[index % 2] ?? first).put(next, { ms: LEASE_MS }, { version: 1, lease: 'lapsed' }, never());
        }),
      );
      const won = outcomes.flatMap((outcome) => (outcome.ok ? [outcome.record] : []));
      assert.equal(won.length, 1, `${won.length} grants of token 2`);
      same(await read(first, 'contended'), won[0], 'the accepted write is what stays');
    },
  },
  {
    name: 'a write that expects another version, or no record, or a record where there is none, is refused and changes nothing',
    async run(harness) {
      const driver = await harness.open();
      await refused(
        driver,
        claimed('absent', { version: 2 }),
        { ms: LEASE_MS },
        { version: 1, lease: 'any' },
        undefined,
      );
      const one = await create(driver, claimed('present'), LEASE_MS);
      await refused(driver, claimed('present', { opId: 'second claim' }), { ms: LEASE_MS }, { version: 0 }, one);
      const two = await put(driver, after(one, { stage: 'commit' }), undefined, { version: 1, lease: 'any' });
      await refused(driver, after(one, { stage: 'verify' }), { ms: LEASE_MS }, { version: 1, lease: 'any' }, two);
      await refused(driver, after(two, { stage: 'verify' }), { ms: LEASE_MS }, { version: 7, lease: 'any' }, two);
    },
  },
  {
    name: 'a read sees the last write, from any process',
    async run(harness) {
      const [driver, other] = [await harness.open(), await harness.open()];
      let record = await create(driver, claimed('moving'), LEASE_MS);
      for (let turn = 0; turn < 15; turn++) {
        record = await put(turn % 2 ? driver : other, after(record, { renewalCount: turn }), undefined, {
          version: record.version,
          lease: 'any',
        });
        same(await read(turn % 2 ? other : driver, 'moving'), record, `after write ${turn}`);
      }
    },
  },
  {
    name: 'a later write replaces the whole record: what it leaves out is gone',
    async run(harness) {
      const driver = await harness.open();
      const whole = await create(driver, everyField(), LEASE_MS);
      const bare = claimed('whole', { version: 2, opId: 'bare', state: 'queued' });
      const stored = await put(driver, bare, undefined, { version: whole.version, lease: 'any' });
      same(stored, bare, 'only what the last write held');
      same(await read(driver, 'whole'), bare, 'only what the last write held');
    },
  },
  {
    name: 'fields that this version does not know are kept under their own names',
    async run(harness) {
      const driver = await harness.open();
      const extra: Record<string, Json> = awkward((name) => ({
        of: name,
        list: [1, null, 'x', { deep: true }],
        zero: 0,
        no: false,
      }));
      const one = await create(driver, claimed('newer', { extra }), LEASE_MS);
      same(one.extra, extra, 'as answered');
      const two = await put(driver, after(one, { stage: 'verify' }), undefined, { version: 1, lease: 'any' });
      same(two.extra, extra, 'after a further write');
      same((await read(driver, 'newer'))?.extra, extra, 'as read');
    },
  },
  {
    name: 'field case 45: effects may bear any name, those that stores reserve included',
    async run(harness) {
      const driver = await harness.open();
      const effects = awkward((name) => ({
        key: `key of ${name}`,
        status: 'intended',
        token: 1,
        system: 'crm',
        intendedAt: 1,
      })) as unknown as Record<string, EffectRecord>;
      await create(driver, claimed('named', { effects }), LEASE_MS);
      const found = await read(driver, 'named');
      same(found?.effects, effects, 'as read');
      assert.deepEqual(Object.keys(found?.effects ?? {}).sort(), [...AWKWARD_NAMES].sort());
    },
  },
  {
    name: 'task ids are told apart by every character',
    async run(harness) {
      const driver = await harness.open();
      const ids = [
        ...AWKWARD_NAMES,
        'a/b',
        'A/B',
        'a/B',
        'a',
        'a%2Fb',
        'a_b',
        'a-b',
        '%',
        '_',
        'x'.repeat(200),
        `${'x'.repeat(199)}y`,
      ];
      for (const id of ids) await create(driver, claimed(id), LEASE_MS);
      for (const id of ids) {
        const found = await read(driver, id);
        assert.equal(found?.taskId, id);
        assert.equal(found?.opId, `op of ${id}`);
      }
    },
  },
  {
    name: 'text comes back character for character: quotes, line ends, emoji, a NUL, a lone surrogate’s neighbours',
    async run(harness) {
      const driver = await harness.open();
      const text = 'a"b\'c\\d\n\r\t\u0000\u0001\u2028\u2029\ufeff中😀é e\u0301 %s ${x} {{y}} </script>';
      const result = { inline: { [text]: text, nested: [text, [], {}, null, true, 1.5, -0.25, 1e21, 0] } };
      await create(driver, claimed('text', { result, renewalReason: text }), LEASE_MS);
      const found = await read(driver, 'text');
      same(found?.result, result, 'in content');
      assert.equal(found?.renewalReason, text);
    },
  },
  {
    name: 'a record beyond the size limit is refused clearly, measured in bytes, and nothing is written',
    needs: (capabilities) => capabilities.maxRecordBytes <= 32 * 2 ** 20,
    async run(harness) {
      const driver = await harness.open();
      const limit = driver.capabilities.maxRecordBytes;
      await invalid(driver, claimed('large', { result: { inline: 'x'.repeat(limit) } }), { version: 0 }, undefined);
      // Half the limit in characters, one and a half times in bytes.
      await invalid(
        driver,
        claimed('wide', { result: { inline: '中'.repeat(Math.ceil(limit / 2)) } }),
        { version: 0 },
        undefined,
      );
      const fits = await create(
        driver,
        claimed('fits', { result: { inline: 'x'.repeat(Math.floor(limit * 0.8) - 2_000) } }),
        LEASE_MS,
      );
      await invalid(
        driver,
        after(fits, { checkpoint: { inline: 'y'.repeat(limit) } }),
        { version: 1, lease: 'any' },
        fits,
      );
    },
  },
  {
    name: 'counts beyond 2^53 are refused, since no reader could compare them',
    async run(harness) {
      const driver = await harness.open();
      await invalid(driver, claimed('token', { fencingToken: 2 ** 53 }), { version: 0 }, undefined);
      await invalid(driver, claimed('version', { version: 2 ** 53 + 2 }), { version: 0 }, undefined);
      await invalid(driver, claimed('fraction', { attempt: 1.5 }), { version: 0 }, undefined);
      await invalid(driver, claimed('nan', { updatedAt: Number.NaN }), { version: 0 }, undefined);
      const last = await create(driver, claimed('last', { fencingToken: 2 ** 53 - 1 }), LEASE_MS);
      assert.equal(last.fencingToken, Number.MAX_SAFE_INTEGER);
      assert.equal((await read(driver, 'last'))?.fencingToken, Number.MAX_SAFE_INTEGER);
    },
  },
  {
    name: 'a write whose signal is aborted beforehand is never applied',
    async run(harness) {
      const driver = await harness.open();
      const outcome = await attempt(
        driver.put(claimed('given up'), { ms: LEASE_MS }, { version: 0 }, AbortSignal.abort(new Error('stop'))),
      );
      assert.ok('error' in outcome, 'an aborted write was answered');
      assert.equal(await read(driver, 'given up'), undefined);
    },
  },
  {
    name: 'a call after close is refused, a second close is harmless, and the store outlives both',
    async run(harness) {
      const [driver, other] = [await harness.open(), await harness.open()];
      const record = await create(driver, claimed('durable'), LEASE_MS);
      await driver.close();
      await driver.close();
      assert.ok('error' in (await attempt(driver.get('durable', never()))), 'a closed driver answered');
      same(await read(other, 'durable'), record, 'as another process sees it');
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
