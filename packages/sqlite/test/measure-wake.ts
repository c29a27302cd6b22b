/**
 * Prints how long a task that another process enqueues takes to be in the hands of an idle receiver, and what that receiver costs
 * while it waits. Run from the package: node --conditions=@leasehold/source test/measure-wake.ts
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { sqliteBroker } from '@leasehold/sqlite';
import { startChild } from './child.ts';
import { never } from './machine.ts';

const COUNT = 100;
const IDLE_MS = 10_000;

// The same counter in every process of the machine.
const now = (): number => Number(process.hrtime.bigint() / 1_000n) / 1_000;

const summary = (times: number[]): string => {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (share: number): string =>
    (sorted[Math.min(COUNT - 1, Math.floor(COUNT * share))] ?? Number.NaN).toFixed(1);
  return `median ${at(0.5)} ms, 95 % ${at(0.95)} ms, longest ${at(1)} ms`;
};

async function send(file: string): Promise<void> {
  const broker = sqliteBroker({ file });
  await broker.open(never());
  const times: number[] = [];
  for (let sent = 0; sent < COUNT; sent++) {
    const start = now();
    await broker.send([{ body: new TextEncoder().encode(String(start)), attributes: {} }], never());
    times.push(now() - start);
    await pause(20 + Math.random() * 60);
  }
  // The rest of the way is the bell's and the receiver's.
  process.stderr.write(`of which the enqueue itself, a commit synced to disk: ${summary(times)}\n`);
  await broker.close();
}

async function measure(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'leasehold-wake-'));
  const file = join(directory, 'store.db');
  const broker = sqliteBroker({ file });
  const waitMs = 3_600_000;
  await broker.open(never());

  const waiting = broker.receive({ max: 1, leaseMs: 60_000, waitMs }, never());
  await pause(500);
  const before = process.cpuUsage();
  await pause(IDLE_MS);
  const { user, system } = process.cpuUsage(before);
  process.stdout.write(
    `idle receiver: ${((user + system) / IDLE_MS / 10).toFixed(2)} % of a core over ${IDLE_MS / 1_000} s\n`,
  );

  const sender = startChild(new URL('./measure-wake.ts', import.meta.url), file);
  const latencies: number[] = [];
  let next = waiting;
  while (latencies.length < COUNT) {
    const [delivery] = await next;
    if (delivery) {
      latencies.push(now() - Number(new TextDecoder().decode(delivery.body)));
      await broker.complete([delivery.handle], never());
    }
    if (latencies.length < COUNT) next = broker.receive({ max: 1, leaseMs: 60_000, waitMs }, never());
  }
  process.stdout.write(`enqueue by another process to receive: ${summary(latencies)} (${COUNT} messages)\n`);
  await sender.ended;
  await broker.close();
  rmSync(directory, { recursive: true });
}

const [, script, given] = process.argv;
if (script === fileURLToPath(import.meta.url)) await (given === undefined ? measure() : send(given));
