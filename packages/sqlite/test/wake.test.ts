import { mkdirSync, rmSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Delivery } from '@leasehold/core';
import { sqliteBroker, systemBootClock, type SqliteBroker } from '@leasehold/sqlite';
import { startChild } from './child.ts';
import { machine, never, type Machine } from './machine.ts';

// The receiver's waits are measured on a clock that stands still: no poll and no timer of it can ever fire,
// so what ends a wait is the bell that another process rang.
let one: Machine;
let broker: SqliteBroker;
beforeEach(async () => {
  one = machine();
  broker = sqliteBroker({ file: one.file, clock: one.clock, bootClock: { ...systemBootClock() } });
  await broker.open(never());
});
afterEach(async () => {
  await broker.close();
  one.dispose();
});

const textOf = (taken: readonly Delivery[]): string[] => taken.map(({ body }) => new TextDecoder().decode(body));
const wait = (waitMs = 3_600_000): Promise<readonly Delivery<string>[]> =>
  broker.receive({ max: 5, leaseMs: 60_000, waitMs }, never());
/** Until the receiver has looked, found nothing, and waits. */
const settled = async (): Promise<void> => {
  while (one.clock.pending === 0) await pause(5);
};

test('a receiver is woken by what another process sends, without looking for it', async () => {
  for (const text of ['first', 'second']) {
    const waiting = wait();
    await settled();
    await startChild(new URL('./sender.ts', import.meta.url), one.file, text).ended;
    expect(textOf(await waiting)).toEqual([text]);
  }
});

test('a receiver hears of a message that is due later, and waits for just that long', async () => {
  const waiting = wait();
  await settled();
  await startChild(new URL('./sender.ts', import.meta.url), one.file, 'later', '300').ended;
  // The store's time is the machine's here: let the receiver's clock go with it.
  let passed = 0;
  for (let done = false; !done; passed += 10) {
    await one.clock.advance(10);
    done = await Promise.race([waiting.then(() => true), pause(10, false)]);
  }
  expect(passed).toBeGreaterThan(200);
  // Its timer was set to the message's own time, well before the next look.
  expect(passed).toBeLessThan(900);
  expect(textOf(await waiting)).toEqual(['later']);
});

test('a bell that somebody deleted is hung up again', async () => {
  const waiting = wait();
  await settled();
  rmSync(`${one.file}.bell`);
  await startChild(new URL('./sender.ts', import.meta.url), one.file, 'heard').ended;
  expect(textOf(await waiting)).toEqual(['heard']);
});

test('without a bell that can be watched, a receiver looks every 40 ms', async () => {
  mkdirSync(`${one.file}.bell`);
  const waiting = wait();
  await settled();
  await startChild(new URL('./sender.ts', import.meta.url), one.file, 'found').ended;
  await one.clock.advance(40);
  expect(textOf(await waiting)).toEqual(['found']);
});

test('should a ring be lost, a receiver finds the message within a second', async () => {
  const waiting = wait();
  await settled();
  const db = new DatabaseSync(one.file);
  db.exec(
    "INSERT INTO leasehold_message (queue, visible_at, not_before, sent_at, attributes, body) VALUES ('default', 0, 0, 0, '{}', x'6869')",
  );
  db.close();
  await one.clock.advance(999);
  expect(one.clock.pending).toBe(1);
  await one.clock.advance(1);
  expect(textOf(await waiting)).toEqual(['hi']);
});

test.each(['closed', 'aborted', 'waited'])('I10: a process whose receive was %s ends by itself', async (way) => {
  expect(await startChild(new URL('./idle-worker.ts', import.meta.url), one.file, way).ended).toBe(0);
});

test('I10: waits leave no timer and no listener behind', async () => {
  const { signal } = new AbortController();
  const listeners: number[] = [];
  const counted = Object.assign(signal, {});
  let count = 0;
  const [add, remove] = [counted.addEventListener.bind(counted), counted.removeEventListener.bind(counted)];
  counted.addEventListener = (...given: Parameters<typeof add>) => (count++, add(...given));
  counted.removeEventListener = (...given: Parameters<typeof remove>) => (count--, remove(...given));
  for (let round = 0; round < 200; round++) {
    const waiting = broker.receive({ max: 1, leaseMs: 60_000, waitMs: 10 }, counted);
    await settled();
    await one.clock.advance(10);
    expect(await waiting).toEqual([]);
    listeners.push(count);
  }
  expect(Math.max(...listeners)).toBe(0);
  expect(one.clock.pending).toBe(0);
});
