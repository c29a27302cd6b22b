import { expect, test } from 'vitest';
import {
  createLeaseBroker,
  createTaskClient,
  isLeaseholdError,
  type BrokerDriver,
  type LedgerDriver,
} from '@leasehold/core';
import { memoryBroker, memoryGuard, memoryLedger } from '@leasehold/core/memory';

function refusal(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    return isLeaseholdError(error) ? `${error.code} ${error.message}` : `raw ${String(error)}`;
  }
  return 'accepted';
}

const [driver, ledger] = [memoryBroker(), memoryLedger()];

test('parts that are missing, or swapped, are refused at once by name', () => {
  const broker = (parts: object) =>
    refusal(() => createLeaseBroker(parts as { driver: BrokerDriver; ledger: LedgerDriver }));
  expect(broker({ driver, ledger })).toBe('accepted');
  expect(broker({ driver: ledger, ledger: driver })).toBe(
    'bad-option driver is an object: pass a broker driver; this is a ledger driver.',
  );
  expect(broker({ driver, ledger: memoryGuard() })).toBe(
    'bad-option ledger is an object: pass a ledger driver; this is a guard store.',
  );
  expect(broker({ ledger })).toBe('bad-option driver is undefined: pass a broker driver.');
  const parts = { broker: createLeaseBroker({ driver, ledger }) } as unknown as { ledger: LedgerDriver };
  expect(refusal(() => createTaskClient(parts))).toBe('bad-option ledger is undefined: pass a ledger driver.');
});

test('a task that is not in a list, or has a field that no task has, is refused and nothing is sent', async () => {
  const broker = createLeaseBroker({ driver, ledger });
  const task = { type: 'charge', input: {}, idempotencyKey: 'order-1' };
  await expect(broker.enqueue(task as unknown as [])).rejects.toThrow('tasks is an object: enqueue takes a list');
  const outcomes = await broker.enqueue([{ ...task, payload: { amount: 1 } } as typeof task, task]);
  expect(outcomes.map(({ ok }) => ok)).toEqual([false, true]);
  const nothing = await broker.enqueue([null as never, task]);
  expect(nothing).toMatchObject([
    { ok: false, code: 'bad-task', message: expect.stringContaining('this is null') as string },
    { ok: true },
  ]);
  expect(outcomes[0]).toMatchObject({ code: 'bad-task' });
  expect(JSON.stringify(outcomes[0])).toContain('payload is no field of a task; there are type, input');
  await broker.close();
});
