import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLeaseBroker } from '@leasehold/core';
import { sqliteBroker, sqliteLedger } from '@leasehold/sqlite';
import { createWorker, defineTask } from '@leasehold/worker';
import { curve, svg, type Sample } from './curve.ts';
import { commandOptions } from '../command-options.ts';

const USAGE = `One worker and many tasks, whose heap, timers, listeners and sockets have to stay where they are.

npm run soak                               100000 tasks
npm run soak -- --tasks 20000              another number, from 1000
npm run soak -- --svg heap.svg             the curve as a file; --json the verdict as JSON
`;

const values = commandOptions(USAGE, {
  tasks: { type: 'string', default: '100000' },
  svg: { type: 'string' },
  json: { type: 'boolean', default: false },
});
const total = Number(values.tasks);
if (!Number.isSafeInteger(total) || total < 1_000) {
  process.stderr.write('--tasks takes a whole number from 1000, such as --tasks 100000.\n');
  process.exit(2);
}
if (!globalThis.gc) {
  process.stderr.write('start it with npm run soak: the heap is measured after a collection (--expose-gc).\n');
  process.exit(2);
}

const WAVE = 500;
/** At the end the heap may be this much above what it was after a tenth. */
const MOST_GROWTH = 0.05;

const folder = mkdtempSync(join(tmpdir(), 'leasehold-soak-'));
const file = join(folder, 'soak.sqlite');
const broker = createLeaseBroker({ driver: sqliteBroker({ file }), ledger: sqliteLedger({ file }) });
const exists = { last: '' };
const progress = { done: 0 };
const plain = defineTask({ type: 'plain', run: () => void progress.done++ });
const effect = defineTask({
  type: 'effect',
  async run(_input, ctx) {
    await ctx.effect('make', {
      system: 'outside',
      receiver: 'idempotent',
      commit: ({ idempotencyKey }) => void (exists.last = idempotencyKey),
      readBack: ({ idempotencyKey }) => ({ id: idempotencyKey }),
      receipt: (found) => ({ externalId: found.id, status: 'made' }),
    });
    await ctx.call('ask', { timeout: '5s' }, () => 'answer');
    progress.done++;
  },
});

async function main(): Promise<void> {
  const resources = (): Record<string, number> => {
    const counted: Record<string, number> = {};
    for (const name of process.getActiveResourcesInfo()) counted[name] = (counted[name] ?? 0) + 1;
    return counted;
  };
  const listeners = (): number => process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0);
  const before = { listeners: listeners(), resources: resources() };
  const worker = createWorker({ broker, tasks: [plain, effect], concurrency: 50, signals: false });
  const running = worker.run();
  const samples: Sample[] = [];
  const startedAt = performance.now();
  let sampledAt = 0;
  for (let sent = 0; sent < total;) {
    const some = Math.min(WAVE, total - sent);
    await broker.enqueue(
      Array.from({ length: some }, (_, index) => ({
        type: (sent + index) % 4 === 0 ? 'effect' : 'plain',
        input: { n: sent + index },
      })),
    );
    sent += some;
    const target = sent;
    while (progress.done < target) await new Promise((resolve) => setTimeout(resolve, 2));
    if (progress.done - sampledAt >= total / 50 || progress.done === total) {
      sampledAt = progress.done;
      await broker.drain();
      globalThis.gc?.();
      samples.push({ tasks: progress.done, heapBytes: process.memoryUsage().heapUsed });
      if (process.stderr.isTTY)
        process.stderr.write(
          `\r${progress.done} of ${total} tasks, heap ${(process.memoryUsage().heapUsed / 1e6).toFixed(1)} MB`,
        );
    }
  }
  if (process.stderr.isTTY) process.stderr.write('\r\u001b[K');
  const seconds = (performance.now() - startedAt) / 1_000;
  await worker.stop();
  await running;
  await broker.close();
  const after = { listeners: listeners(), resources: resources() };
  const tenth = samples.find(({ tasks }) => tasks >= total / 10) ?? samples[0];
  const last = samples.at(-1);
  const growth = tenth && last ? last.heapBytes / tenth.heapBytes - 1 : Number.NaN;
  const left = Object.entries(after.resources).filter(([name, count]) => count > (before.resources[name] ?? 0));
  const flat = growth <= MOST_GROWTH && after.listeners === before.listeners && left.length === 0;
  if (values.svg !== undefined) writeFileSync(values.svg, svg(samples));
  if (values.json) {
    process.stdout.write(
      `${JSON.stringify({ tasks: progress.done, seconds, growth, listeners: after.listeners - before.listeners, left: Object.fromEntries(left), flat })}\n`,
    );
  } else {
    process.stdout.write(
      `${curve(samples)}\n${progress.done} tasks in ${seconds.toFixed(1)} s; heap at the end ${(growth * 100).toFixed(1)} % above that after a tenth; `,
    );
    process.stdout.write(
      `${after.listeners - before.listeners} listeners and ${left.length === 0 ? 'no' : left.map(([name]) => name).join(', ')} timers, sockets or files left\n`,
    );
  }
  if (!flat) process.exitCode = 1;
}

await main().finally(() => rmSync(folder, { recursive: true, force: true }));
