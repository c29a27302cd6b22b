import { randomUUID } from 'node:crypto';
import { closeSync, fsyncSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { claimTask, hashJson, ledgerSession, leaseTiming, systemClock } from '@leasehold/core';
import { sqliteLedger } from '@leasehold/sqlite';
import { median } from '../figures.ts';
import { measured, type Side, type SideOptions } from '../side.ts';

// Settled long ago, under ids in no order, each of the size that a settled record has.
const FILL = `
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :rows)
INSERT INTO leasehold_task (task_id, version, state, updated_at, expires_at, stage, task_type, document)
  SELECT lower(hex(randomblob(16))), 2, 'settled', i, 9000000000000 + i, 'settled', 'bench', hex(randomblob(400)) FROM n`;
const BATCH = 50_000;

/** New tasks claimed one after another, in a file that holds `concurrency` records already. The figure is the median claim. */
export async function openSqliteClaims({ directory, concurrency: rows }: SideOptions): Promise<Side> {
  const file = join(directory, 'ledger.db');
  const clock = systemClock();
  const session = ledgerSession(sqliteLedger({ file }), clock);
  await session.get('none', 10_000);
  const db = new DatabaseSync(file);
  db.exec('PRAGMA synchronous = OFF');
  const fill = db.prepare(FILL);
  for (let filled = 0; filled < rows; filled += BATCH) fill.run({ rows: Math.min(BATCH, rows - filled) });
  db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  db.close();
  // What the filling left to the system to write is not to be waited for by the claims.
  const written = openSync(file, 'r+');
  fsyncSync(written);
  closeSync(written);
  const timing = leaseTiming('90s');
  const claim = async (): Promise<number> => {
    const start = performance.now();
    const outcome = await claimTask(session, clock, timing, {
      taskId: randomUUID(),
      taskType: 'bench',
      owner: 'bench/0#0',
      idempotencyKey: 'key',
      payloadHash: hashJson(null),
      attempts: 5,
      retentionMs: 86_400_000,
    });
    if (!('lease' in outcome)) throw new Error('a new task was not granted');
    return performance.now() - start;
  };
  return {
    fill: async () => undefined,
    async run(count) {
      const times: number[] = [];
      const result = await measured(count, async () => {
        for (let done = 0; done < count; done++) times.push(await claim());
      });
      return { ...result, wallMs: median(times) * count };
    },
    close: () => session.close(),
  };
}
