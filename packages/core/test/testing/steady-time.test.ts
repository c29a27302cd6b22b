import { setTimeout as real } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { sleep, virtualClock } from '@leasehold/core';
import { steadyTime } from '@leasehold/core/testing';

/** Something that answers in its own time, in real milliseconds. */
const slow = {
  calls: 0,
  async work(): Promise<string> {
    await real(15);
    slow.calls++;
    return 'done';
  },
};

test('virtual time does not pass while a call is under way', async () => {
  const clock = virtualClock();
  const time = steadyTime(clock);
  const driver = time.watch(slow);
  const seen: string[] = [];
  const use = async (): Promise<void> => {
    await sleep(clock, 100);
    const timeout = clock.timer(1, () => seen.push('timeout'));
    seen.push(await driver.work());
    timeout.cancel();
    await sleep(clock, 100);
    seen.push(`at ${clock.monotonic() - 1_000}`);
  };
  void use();
  await time.advance(1_000);
  expect(seen).toEqual(['done', 'at 200']);
  expect(clock.monotonic()).toBe(2_000);
});

test('until says whether it came true, moves no further than it has to, and ends where nothing is left to wait for', async () => {
  const clock = virtualClock();
  const time = steadyTime(clock);
  let there = false;
  clock.timer(300, () => (there = true));
  clock.timer(900, () => undefined);
  expect(await time.until(() => there, 5_000)).toBe(true);
  expect(clock.monotonic()).toBe(1_300);
  expect(await time.until(() => false, 200)).toBe(false);
  expect(clock.monotonic()).toBe(1_500);
  expect(await time.until(() => false, 60_000)).toBe(false);
  expect(clock.pending).toBe(0);
});

test('a server follows in strides, and a call that it holds does not stop the clock', async () => {
  const clock = virtualClock();
  const waiters: { readonly at: number; readonly answer: (value: string) => void }[] = [];
  const server = {
    times: [] as number[],
    async settle() {
      const now = clock.monotonic();
      server.times.push(now);
      await real(1);
      for (const waiter of waiters.filter(({ at }) => at <= now)) {
        waiters.splice(waiters.indexOf(waiter), 1);
        waiter.answer(`answered at ${now}`);
      }
    },
    get waiting() {
      return waiters.length;
    },
  };
  const time = steadyTime(clock, [server]);
  const driver = time.watch({
    receive: () => new Promise<string>((answer) => waiters.push({ at: clock.monotonic() + 2_500, answer })),
  });
  const received: string[] = [];
  void driver.receive().then((answer) => received.push(answer));
  await time.advance(10_000);
  expect(received).toEqual(['answered at 4000']);
  const steps = server.times.slice(1).map((at, index) => at - (server.times[index] ?? 0));
  expect(Math.max(...steps)).toBeLessThanOrEqual(1_000);
});
