import { sqliteBroker } from '@leasehold/sqlite';
import type { OpenLedger, StoreOptions } from '../open-ledger.ts';
import { queuesOf } from '../stores/sqlite-file.ts';
import { counted, plain } from '../wording.ts';
import { answering, openQueue, type SaidQueue } from './open-queue.ts';

const TIMEOUT_MS = 10_000;

/** A line for each queue that has messages: of those that wait to be claimed for the first time no ledger knows. */
export async function depthsOf(options: StoreOptions, ledger: OpenLedger['address']): Promise<readonly string[]> {
  const lines: string[] = [];
  for (const [name, open] of queues(options, ledger)) {
    const queue = await open();
    const { driver } = queue;
    try {
      const { visible, inFlight, delayed, blocked, deadLetters } = await answering(queue, () =>
        driver.depth(AbortSignal.timeout(TIMEOUT_MS)),
      );
      const waiting = visible + blocked;
      if (waiting + inFlight + delayed + deadLetters === 0) continue;
      const later = delayed > 0 ? `, ${delayed} delayed` : '';
      lines.push(
        `queue ${plain(name)}: ${waiting} waiting, ${inFlight} held${later}, ${counted(deadLetters, 'dead letter')}`,
      );
    } finally {
      await driver.close();
    }
  }
  return lines;
}

function queues(
  options: StoreOptions,
  ledger: OpenLedger['address'],
): readonly (readonly [name: string, open: () => Promise<SaidQueue>])[] {
  const asked = options.queue ?? (process.env['LEASEHOLD_QUEUE'] || undefined);
  if (asked !== undefined) return [[asked, () => openQueue(options, ledger)]];
  if (ledger.kind !== 'sqlite') return [];
  return queuesOf(ledger.place).map((queue) => [
    queue,
    async () => ({ driver: sqliteBroker({ file: ledger.place, queue }), said: ledger.said, named: true }),
  ]);
}
