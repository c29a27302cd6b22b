import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { virtualClock, type Delivery, type HandleOutcome } from '@leasehold/core';
import { memoryBroker, memoryQueue, type MemoryBroker, type MemoryBrokerOptions } from '@leasehold/core/memory';

const never = new AbortController().signal;
const WHY = { reason: 'r', description: 'd', attributes: {} };

type HandleStep = 'extend' | 'complete' | 'release' | 'reject';
type Step = readonly [kind: HandleStep | 'send' | 'take' | 'wait', which: number, ms: number];

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.tuple(
    fc.constantFrom<Step[0]>('send', 'take', 'take', 'extend', 'complete', 'release', 'reject', 'wait'),
    fc.nat(7),
    fc.nat(400),
  ),
  { minLength: 10, maxLength: 60, size: 'max' },
);
const behaviours: fc.Arbitrary<MemoryBrokerOptions> = fc.record({
  ordering: fc.boolean(),
  staleHandle: fc.constantFrom('detected', 'silent'),
  maxDeliveries: fc.constantFrom(3, 1_000),
});

/** What the test believes of one delivery. */
interface Held {
  readonly delivery: Delivery<string>;
  until: number;
  over: boolean;
}

const call = (
  broker: MemoryBroker,
  kind: HandleStep,
  handle: string,
  ms: number,
): Promise<readonly HandleOutcome[]> => {
  switch (kind) {
    case 'extend':
      return broker.extend([handle], 1 + ms, never);
    case 'complete':
      return broker.complete([handle], never);
    case 'release':
      return broker.release([handle], ms, never);
    case 'reject':
      return broker.reject(handle, WHY, never).then((outcome) => [outcome]);
  }
};

/** Runs the steps and gives what went wrong; counts what was tried in `tried`. */
async function play(
  script: readonly Step[],
  options: MemoryBrokerOptions,
  tried: Map<string, number>,
): Promise<readonly string[]> {
  const clock = virtualClock();
  const queue = memoryQueue();
  const brokers = [memoryBroker({ ...options, queue, clock }), memoryBroker({ ...options, queue })] as const;
  const wrong: string[] = [];
  const taken: Held[] = [];
  let [sent, completed] = [0, 0];
  const isGood = ({ over, until }: Held): boolean => !over && until > clock.monotonic();
  for (const [at, [kind, which, ms]] of script.entries()) {
    const broker = brokers[which % 2 === 0 ? 0 : 1];
    const held = taken[which % (taken.length || 1)];
    const check = (holds: boolean, what: string): void => void (holds || wrong.push(`step ${at}, ${kind}: ${what}`));
    if (kind === 'wait') await clock.advance(ms);
    else if (kind === 'send') {
      const message = {
        body: Uint8Array.of(1),
        attributes: {},
        groupId: `g${which % 3}`,
        delayMs: ms % 3 === 0 ? ms : 0,
      };
      sent += (await broker.send([message], never)).length;
    } else if (kind === 'take') {
      for (const delivery of await broker.receive({ max: 1 + (which % 3), leaseMs: 1 + ms, waitMs: 0 }, never)) {
        const rivals = taken.filter((other) => other.delivery.messageId === delivery.messageId);
        check(!rivals.some(isGood), 'a message that somebody holds was handed out');
        taken.push({ delivery, until: clock.monotonic() + 1 + ms, over: false });
      }
    } else if (held) {
      const good = isGood(held);
      const [outcome] = await call(broker, kind, held.delivery.handle, ms);
      check(
        outcome === (good || options.staleHandle === 'silent' ? 'done' : 'gone'),
        `${JSON.stringify(outcome)} for good = ${good}`,
      );
      if (good && kind === 'extend') held.until = clock.monotonic() + 1 + ms;
      else if (good) held.over = true;
      if (good && kind === 'complete') completed++;
      const name = `${kind} ${good ? 'good' : 'stale'}`;
      tried.set(name, (tried.get(name) ?? 0) + 1);
    }
    check(queue.messages.length + queue.deadLetters.length + completed === sent, 'a message is lost or doubled');
    const good = taken.filter(isGood).map(({ delivery }) => delivery);
    const believed = good.map(({ messageId }) => messageId).sort();
    check(
      queue.inFlight
        .map(({ messageId }) => messageId)
        .sort()
        .join() === believed.join(),
      'held by others than we think',
    );
    const groups = new Set(good.map(({ groupId }) => groupId));
    check(!options.ordering || groups.size === good.length, 'two of one group are in flight');
  }
  return wrong;
}

test('whatever happens, a message is in one place, and at most one delivery of it is good', async () => {
  const tried = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(steps, behaviours, async (script, options) => {
      expect(await play(script, options, tried)).toEqual([]);
    }),
    { numRuns: 300 },
  );
  // All of it was tried, or nothing is shown.
  expect([...tried].filter(([, times]) => times >= 20)).toHaveLength(8);
});
