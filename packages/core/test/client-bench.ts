import { expect } from 'vitest';
import type { Lease } from '../src/lease.ts';
import { createTaskClient, type TaskClient } from '../src/task-client.ts';
import { brokerBench, type BrokerBench } from './broker-bench.ts';
import { TIMING } from './lease-bench.ts';

export function clientBench(
  parts: Partial<Parameters<typeof createTaskClient>[0]> = {},
): BrokerBench & { readonly client: TaskClient } {
  const bench = brokerBench();
  const client = createTaskClient({
    broker: bench.broker,
    ledger: bench.broker.ledger.driver,
    clock: bench.clock,
    ...parts,
  });
  return { ...bench, client };
}
export async function running(bench: BrokerBench, fields: { readonly agentRunId?: string } = {}): Promise<Lease> {
  await bench.done(bench.broker.enqueue([{ type: 'charge', input: 1, taskId: 't-0', ...fields }]));
  return bench.lease();
}
export async function intended(bench: BrokerBench): Promise<Lease> {
  const lease = await running(bench);
  const details = { key: 'k', system: 'crm' };
  await bench.done(
    lease.task.apply({ type: 'intend', effect: 'create', details, leaseMs: TIMING.leaseMs }, { repeat: true }),
  );
  return lease;
}
/** What a promise that has to be rejected is rejected with. */
export const outcome = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => expect.unreachable('not rejected'),
    (error: unknown) => error,
  );
