import fc from 'fast-check';
import { expect, test } from 'vitest';
import { sleep } from '@leasehold/core';
import { applyLater, delayAnswer, delayCall, dropAnswer, failBefore, hang, type Fault } from '@leasehold/core/testing';
import { defineTask } from '@leasehold/worker';
import { World, type Host } from './harness.ts';
import { make } from './making.ts';

const ms = fc.constantFrom(0, 100, 900, 1_100, 2_500, 5_000, 8_000, 12_000);
const fault: fc.Arbitrary<{ readonly name: string; readonly fault: Fault }> = fc.oneof(
  fc
    .constantFrom('throttled', 'unavailable', 'denied')
    .map((code) => ({ name: code, fault: failBefore(code as 'throttled') })),
  ms.map((after) => ({ name: `answer dropped after ${after}`, fault: dropAnswer(after) })),
  ms.map((after) => ({ name: `answered after ${after}`, fault: delayAnswer(after) })),
  ms.map((after) => ({ name: `on its way for ${after}`, fault: delayCall(after) })),
  ms.map((after) => ({ name: `applied ${after} later`, fault: applyLater(after) })),
  fc.constant({ name: 'hangs', fault: hang() }),
);
const schedule = fc.record({
  faults: fc.array(
    fc.record({ nth: fc.integer({ min: 1, max: 14 }), method: fc.constantFrom('put' as const, 'get' as const), fault }),
    { maxLength: 8 },
  ),
  pauses: fc.array(fc.record({ atMs: fc.integer({ min: 0, max: 30_000 }), forMs: ms }), { maxLength: 3 }),
  steps: fc.array(
    fc.record({
      atMs: fc.integer({ min: 0, max: 30_000 }),
      byMs: fc.constantFrom(-60_000, -500, 500, 5_000, 3_600_000),
    }),
    { maxLength: 2 },
  ),
  before: fc.constantFrom(0, 2_000, 6_900, 7_500, 12_000),
  between: fc.constantFrom(0, 2_000, 7_500),
  latency: fc.constantFrom(0, 500, 4_000, 10_000),
  rival: fc.boolean(),
});

test('no commit starts while ownership is unknown or lost, whatever the ledger answers and however the process stands still', async () => {
  let runs = 0;
  let unknown = 0;
  await fc.assert(
    fc.asyncProperty(schedule, async (plan) => {
      const world = new World();
      world.receiver.latencyMs = plan.latency;
      const tasks = (host: Host) => [
        defineTask({
          type: 'task',
          lease: '9s',
          limits: { attempts: 50 },
          backoff: { first: '1s', max: '5s' },
          async run(_input, ctx) {
            await sleep(host.clock, plan.before, ctx.signal);
            await make(world, host, ctx, 'first', 'guarded look');
            await sleep(host.clock, plan.between, ctx.signal);
            await make(world, host, ctx, 'second', 'guarded function');
          },
        }),
      ];
      const a = world.host('a');
      for (const { nth, method, fault: one } of plan.faults) a.ledgerFaults.on(method, one.fault, { nth });
      for (const { atMs, forMs } of plan.pauses) world.clock.timer(atMs, () => a.process.pause(forMs));
      for (const { atMs, byMs } of plan.steps) world.clock.timer(atMs, () => a.clock.stepWall(byMs));
      a.work(tasks(a));
      if (plan.rival) {
        const b = world.host('b');
        b.work(tasks(b));
      }
      const id = await world.enqueue({ type: 'task' });
      await world.until(() => world.quiet && world.record(id) !== undefined, 3_600_000);
      await world.clock.advance(60_000);
      expect(world.record(id)).toMatchObject({
        state: 'settled',
        effects: { first: { status: 'verified' }, second: { status: 'verified' } },
      });
      expect(world.receiver.made.map(({ key }) => key.split(':')[1])).toEqual(['first', 'second']);
      expect(world.invariants.settles.get(id)).toBe(1);
      unknown += world.named('heartbeat_unknown', 'heartbeat_lost').length;
      runs++;
      await world.end();
    }),
    { numRuns: 400 },
  );
  // The schedules do reach what they are about.
  expect(unknown).toBeGreaterThan(runs / 10);
});
