import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { claimTask, ledgerSession } from '@leasehold/core';
import { kinds, type Fault } from '@leasehold/emulators';
import { machine, type Machine, type Table } from './machine.ts';

const MINUTE = 60_000;

let one: Machine;
let table: Table;
let refused: number;
beforeAll(async () => {
  one = await machine();
});
afterAll(() => one.close());
beforeEach(async () => {
  table = await one.table({ table: 'container-clock' });
  one.server.faults.reset();
  refused = 0;
  for (const operation of ['DescribeTable', 'GetItem', 'PutItem'])
    one.server.faults.on(operation, signedInTime, { times: Infinity });
});
afterEach(async () => {
  vi.useRealTimers();
  await table.dispose();
});

/** As the service does it: a signature holds for five minutes either way. */
const signedInTime: Fault = (call) => {
  const text = String(call.request.headers['x-amz-date']);
  const signed = Date.parse(text.replace(/^(....)(..)(..T..)(..)(..Z)$/, '$1-$2-$3:$4:$5'));
  const lateMs = one.clock.wall() - signed;
  if (Math.abs(lateMs) <= 5 * MINUTE) return call.apply();
  refused++;
  const message =
    lateMs > 0 ? `Signature expired: ${text} is now earlier than …` : `Signature not yet current: ${text}`;
  return kinds.failBefore({ type: 'InvalidSignatureException', message })(call);
};

test.each([10, -10, 60])(
  'I8: with a container clock %i minutes off a task is claimed; when it is set right in between, the lease is renewed',
  async (off) => {
    vi.useFakeTimers({ toFake: ['Date'], now: one.clock.wall() + off * MINUTE });
    const session = ledgerSession(table.ledger(), one.clock);
    const timing = { leaseMs: 90_000, heartbeatMs: 30_000, marginMs: 20_000, tolerate: 1 };
    const task = { taskId: 't', taskType: 'a', owner: 'o', idempotencyKey: 'k', payloadHash: 'h' };
    const until = async <Result>(work: Promise<Result>): Promise<Result> => {
      let over = false;
      const done = (): void => void (over = true);
      work.then(done, done);
      expect(await one.time.until(() => over, MINUTE)).toBe(true);
      return work;
    };
    const claimed = await until(
      claimTask(session, one.clock, timing, { ...task, attempts: 5, retentionMs: 30 * 86_400_000 }),
    );
    if (!('lease' in claimed)) throw new Error(JSON.stringify(claimed));
    expect(refused).toBe(1);
    const { lease } = claimed;
    expect(Math.abs((lease.record.leaseExpiresAt ?? 0) - one.clock.wall() - 90_000)).toBeLessThan(2_500);
    vi.setSystemTime(one.clock.wall());
    expect(await until(lease.apply({ type: 'renew', leaseMs: 90_000 }, { repeat: true }))).toMatchObject({
      applied: { renewalCount: 1 },
    });
    expect(refused).toBe(2);
    expect(lease.ownership()).toBe('held');
  },
);
