import { afterEach, describe, expect, test } from 'vitest';
import fc from 'fast-check';
import { isLapsed } from '@leasehold/core';
import { sqliteBroker, sqliteGuard, sqliteLedger, systemBootClock } from '@leasehold/sqlite';
import { machine, never, type Machine } from './machine.ts';
import { after, claimed } from './stored-record.ts';

const machines: Machine[] = [];
/** A machine that has been up for some minutes. */
const started = async (options?: Parameters<typeof machine>[0]): Promise<Machine> => {
  const one = machine(options);
  machines.push(one);
  await one.clock.advance(300_000);
  return one;
};
afterEach(() => {
  for (const one of machines.splice(0)) one.dispose();
});

const bytes = new TextEncoder();
const message = (text: string) => ({ body: bytes.encode(text), attributes: {} });
const receive = { max: 1, leaseMs: 60_000, waitMs: 0 };

describe.each([{ bootIds: true }, { bootIds: false }])('with boot ids: $bootIds', (system) => {
  test('a reboot ends every lease, lock and hold, however long each had to run', async () => {
    const one = await started(system);
    const before = one.process();
    const [ledger, broker, guard] = [sqliteLedger(before), sqliteBroker(before), sqliteGuard(before)];
    await broker.send([message('held')], never());
    const [held] = await broker.receive({ ...receive, leaseMs: 86_400_000 }, never());
    const put = await ledger.put(claimed('task'), { ms: 86_400_000 }, { version: 0 }, never());
    const ask = { scope: 's', key: 'k', hold: 'n', requestHash: 'h', holdMs: 86_400_000, retentionMs: 1_000_000_000 };
    await guard.begin(ask, never());
    await one.clock.advance(5_000);
    await Promise.all([ledger.close(), broker.close(), guard.close()]);

    one.reboot();
    const now = one.process();
    const [ledger2, broker2, guard2] = [sqliteLedger(now), sqliteBroker(now), sqliteGuard(now)];
    const read = await ledger2.get('task', never());
    expect(read.record && isLapsed(read.record, read.now)).toBe(true);
    expect((await ledger2.list({ lapsed: true, limit: 5 }, never())).records.map((record) => record.taskId)).toEqual([
      'task',
    ]);
    const renewal = await ledger2.put(
      after(claimed('task'), {}),
      { ms: 1_000 },
      { version: 1, lease: 'live' },
      never(),
    );
    expect(renewal.ok).toBe(false);
    const takeover = await ledger2.put(
      after(claimed('task'), { fencingToken: 2 }),
      { ms: 1_000 },
      { version: 1, lease: 'lapsed' },
      never(),
    );
    expect(takeover.ok).toBe(true);
    expect(await guard2.begin(ask, never())).toEqual({ inDoubt: 'n' });
    expect(await guard2.extend(ask, 1_000, never())).toBe(false);
    const [again] = await broker2.receive(receive, never());
    expect(again?.messageId).toBe(held?.messageId);
    expect(await broker2.complete([held?.handle ?? ''], never())).toEqual(['gone']);
    expect(await broker2.complete([again?.handle ?? ''], never())).toEqual(['done']);
    expect(put.ok).toBe(true);
    await Promise.all([ledger2.close(), broker2.close(), guard2.close()]);
  });

  test('store time goes on across reboots, so delays and deadlines keep their meaning', async () => {
    const one = await started(system);
    const first = sqliteBroker(one.process());
    await first.send([{ ...message('later'), delayMs: 60_000 }], never());
    await first.close();
    await one.clock.advance(30_000);
    one.reboot();
    const second = sqliteBroker(one.process());
    expect(await second.receive(receive, never())).toEqual([]);
    await one.clock.advance(31_001);
    expect(await second.receive(receive, never())).toHaveLength(1);
    await second.close();
  });

  test('I8: neither a stepping wall clock nor a process with another one changes who owns what', async () => {
    const one = await started(system);
    const [mine, theirs] = [
      sqliteLedger(one.process()),
      sqliteLedger({ ...one.process(), clock: machine({ startWall: 4_000_000_000_000 }).clock }),
    ];
    await mine.put(claimed('task'), { ms: 60_000 }, { version: 0 }, never());
    for (const step of [3_600_000, -7_200_000, 86_400_000]) {
      one.clock.stepWall(step);
      const takeover = await theirs.put(
        after(claimed('task'), {}),
        { ms: 1_000 },
        { version: 1, lease: 'lapsed' },
        never(),
      );
      expect(takeover.ok).toBe(false);
    }
    await one.clock.advance(60_001);
    const late = await mine.put(after(claimed('task'), {}), { ms: 1_000 }, { version: 1, lease: 'live' }, never());
    expect(late.ok).toBe(false);
    await Promise.all([mine.close(), theirs.close()]);
  });

  test('a wall clock that was set back before a reboot does not take store time back', async () => {
    const one = await started(system);
    const ledger = sqliteLedger(one.process());
    await ledger.put(claimed('task'), { ms: 1_000 }, { version: 0 }, never());
    await one.clock.advance(500_000);
    const before = (await ledger.put(claimed('other'), { ms: 1_000 }, { version: 0 }, never())).now;
    await ledger.close();
    one.clock.stepWall(-86_400_000);
    one.reboot();
    const later = sqliteLedger(one.process());
    const { now } = await later.get('task', never());
    expect(now.earliest).toBeGreaterThan(before.latest);
    await later.close();
  });
});

test('two machines on one file are found out: an earlier boot id that comes back is refused', async () => {
  const one = await started();
  const here = sqliteLedger(one.process());
  await here.put(claimed('task'), { ms: 60_000 }, { version: 0 }, never());
  one.reboot();
  const there = sqliteLedger(one.process());
  await there.get('task', never());
  const refused = here.put(claimed('mine'), { ms: 60_000 }, { version: 0 }, never());
  await expect(refused).rejects.toThrow('two machines');
  await expect(refused).rejects.toMatchObject({ code: 'unavailable', field: 'file' });
  expect((await there.get('mine', never())).record).toBeUndefined();
  await Promise.all([here.close(), there.close()]);
});

test('a container whose uptime is its own is refused instead of being given leases that others hold', async () => {
  const one = await started();
  await one.clock.advance(1_000_000);
  const host = sqliteLedger(one.process());
  await host.put(claimed('task'), { ms: 60_000 }, { version: 0 }, never());
  const late = one.process();
  const container = sqliteLedger({
    ...late,
    bootClock: { ...late.bootClock, uptimeMs: () => late.bootClock.uptimeMs() - 5_000 },
  });
  const refused = container.put(after(claimed('task'), {}), { ms: 1 }, { version: 1, lease: 'lapsed' }, never());
  await expect(refused).rejects.toMatchObject({ code: 'unavailable', field: 'bootClock' });
  await Promise.all([host.close(), container.close()]);
});

// docs/decisions/sqlite-clock.md: why a reboot that nobody noticed only delays.
test('without a boot id a missed reboot never shortens a lease, and lengthens it by at most its own length and a moment', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 0, max: 50_000 }),
      fc.integer({ min: 0, max: 100_000 }),
      fc.integer({ min: 0, max: 100_000 }),
      async (claimedAt, offMs, uptimeMs) => {
        const one = machine({ bootIds: false });
        await one.clock.advance(claimedAt);
        const ledger = sqliteLedger(one.process());
        const leaseMs = 30_000;
        await ledger.put(claimed('task'), { ms: leaseMs }, { version: 0 }, never());
        await ledger.close();
        // The machine is off for a while, and up for a while before anybody looks.
        await one.clock.advance(offMs + uptimeMs);
        one.reboot(uptimeMs);
        const later = sqliteLedger(one.process());
        const { record, now } = await later.get('task', never());
        // Shown as over although the machine did not stop for that long: only when the reboot was recognised, which ended its holder.
        if (record && isLapsed(record, now) && offMs + uptimeMs < leaseMs)
          expect(uptimeMs).toBeLessThan(1_000 + claimedAt);
        await one.clock.advance(leaseMs + 100);
        const end = await later.get('task', never());
        expect(end.record && isLapsed(end.record, end.now)).toBe(true);
        await later.close();
        one.dispose();
      },
    ),
    { numRuns: 25 },
  );
});

test('this machine has a boot clock that every process reads alike', () => {
  const clock = systemBootClock();
  const first = clock.uptimeMs();
  expect(first).toBeGreaterThan(0);
  expect(clock.uptimeMs()).toBeGreaterThanOrEqual(first);
  if (process.platform === 'linux') expect(clock.bootId).toMatch(/^[0-9a-f-]{36}$/);
});
