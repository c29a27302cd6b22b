/**
 * Prints what one receive and one complete cost with more and more rows in the file: records, messages in flight, delayed messages,
 * and messages that wait their turn. Run from the package: node --conditions=@leasehold/source test/measure-receive.ts
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { sqliteBroker } from '@leasehold/sqlite';
import { never } from './machine.ts';

const SIZES = [1_000, 10_000, 100_000, 1_000_000];
const ROUNDS = 2_000;

// A quarter of the rows of each kind; all but the records are messages nobody can receive now, or that wait their turn.
const FILL = `
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :rows / 4)
INSERT INTO leasehold_message (queue, visible_at, boot, not_before, sent_at, attributes, body)
  SELECT 'default', 9000000000000 + i, 1, 0, 0, '{}', zeroblob(300) FROM n
  UNION ALL SELECT 'default', 8000000000000 + i, NULL, 0, 0, '{}', zeroblob(300) FROM n
  UNION ALL SELECT 'default', i, NULL, 0, 0, '{}', zeroblob(300) FROM n`;
const RECORDS = `
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :rows / 4)
INSERT INTO leasehold_task (task_id, version, state, updated_at, stage, task_type, document)
  SELECT 'task ' || i, 2, 'settled', i, 'settled', 'x', hex(zeroblob(300)) FROM n`;

const directory = mkdtempSync(join(tmpdir(), 'leasehold-receive-'));
for (const rows of SIZES) {
  const file = join(directory, `${rows}.db`);
  const broker = sqliteBroker({ file });
  await broker.open(never());
  const db = new DatabaseSync(file);
  for (const sql of [FILL, RECORDS]) db.prepare(sql).run({ rows });
  db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  db.close();
  const messages = Array.from({ length: 100 }, () => ({ body: new Uint8Array(300), attributes: {} }));
  for (let sent = 0; sent < ROUNDS; sent += 100) await broker.send(messages, never());
  const once = async (): Promise<number> => {
    const start = performance.now();
    const [delivery] = await broker.receive({ max: 1, leaseMs: 60_000, waitMs: 0 }, never());
    await broker.complete([delivery?.handle ?? ''], never());
    return (performance.now() - start) * 1_000;
  };
  for (let warm = 0; warm < 200; warm++) await once();
  const cpu = process.cpuUsage();
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round++) times.push(await once());
  const { user, system } = process.cpuUsage(cpu);
  times.sort((a, b) => a - b);
  const median = (times[ROUNDS / 2] ?? Number.NaN).toFixed(0);
  process.stdout.write(
    `${String(rows).padStart(9)} rows: median ${median} µs, CPU ${((user + system) / ROUNDS).toFixed(0)} µs per receive and complete\n`,
  );
  await broker.close();
}
rmSync(directory, { recursive: true });
