import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { sqliteBroker, sqliteLedger } from '@leasehold/sqlite';
import { startChild, type Child } from './child.ts';
import { machine, never } from './machine.ts';

const WORKERS = 4;
const KILLS = 200;
const LEASE_MS = '400';
const SEED = Number(process.env['LEASEHOLD_SEED'] ?? Date.now() % 1_000_000);

/** Numbers from 0 to 1 that a seed repeats (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

async function kill(child: Child): Promise<void> {
  child.process.kill('SIGKILL');
  await child.ended;
}

function integrity(file: string): unknown {
  const db = new DatabaseSync(file);
  const found = db
    .prepare('PRAGMA integrity_check')
    .all()
    .map((row) => row['integrity_check']);
  db.close();
  return found;
}

test(
  `field case 28: ${KILLS} SIGKILLs at random over ${WORKERS} processes lose no task and double none (seed ${SEED})`,
  { timeout: 180_000 },
  async () => {
    const random = randomFrom(SEED);
    const { file, dispose } = machine();

    expect(await startChild(new URL('./kill-worker.ts', import.meta.url)).ended).toBe(0);
    // Killed while it makes the file: the next one goes on.
    for (let round = 0; round < 5; round++) {
      const maker = startChild(new URL('./kill-worker.ts', import.meta.url), file, LEASE_MS);
      await maker.said('opening');
      await pause(random() * 12);
      await kill(maker);
    }
    const ledger = sqliteLedger({ file });
    await ledger.open(never());
    const audit = new DatabaseSync(file, { timeout: 5_000 });
    audit.exec(`
    CREATE TABLE effects (task_id TEXT, token INTEGER);
    CREATE TABLE writes (task_id TEXT, version INTEGER, token INTEGER, state TEXT);
    CREATE TRIGGER first_write AFTER INSERT ON leasehold_task BEGIN
      INSERT INTO writes VALUES (NEW.task_id, NEW.version, json_extract(NEW.document, '$.fencing_token'), NEW.state);
    END;
    CREATE TRIGGER later_write AFTER UPDATE ON leasehold_task BEGIN
      INSERT INTO writes VALUES (NEW.task_id, NEW.version, json_extract(NEW.document, '$.fencing_token'), NEW.state);
    END;`);
    const broker = sqliteBroker({ file });
    const sent: string[] = [];
    const send = async (count: number): Promise<void> => {
      const ids = Array.from({ length: count }, (_, index) => `task ${sent.length + index}`);
      sent.push(...ids);
      const outcomes = await broker.send(
        ids.map((id) => ({ body: new TextEncoder().encode(id), attributes: {} })),
        never(),
      );
      expect(outcomes.every((outcome) => 'messageId' in outcome)).toBe(true);
    };

    const workers: Child[] = Array.from({ length: WORKERS }, () =>
      startChild(new URL('./kill-worker.ts', import.meta.url), file, LEASE_MS),
    );
    let kills = 5;
    const slot = async (index: number): Promise<void> => {
      while (kills < KILLS) {
        const child = workers[index] as Child;
        await send(3);
        // One in eight while it starts, the others anywhere in its work.
        if (random() > 0.125) await child.said('ready');
        await pause(random() * 120);
        kills++;
        await kill(child);
        workers[index] = startChild(new URL('./kill-worker.ts', import.meta.url), file, LEASE_MS);
      }
    };
    await Promise.all(workers.map((_, index) => slot(index)));
    for (;;) {
      const { visible, inFlight, delayed } = await broker.depth();
      if (visible + inFlight + delayed === 0) break;
      await pause(50);
    }
    await Promise.all(workers.map(kill));
    await Promise.all([broker.close(), ledger.close()]);

    const settled = audit
      .prepare(
        "SELECT task_id, count(*) AS times FROM writes WHERE state = 'settled' GROUP BY task_id ORDER BY task_id",
      )
      .all();
    expect(settled.map((row) => row['task_id'])).toEqual([...sent].sort());
    expect(settled.filter((row) => row['times'] !== 1)).toEqual([]);
    const effects = audit
      .prepare('SELECT task_id, count(*) AS times FROM effects GROUP BY task_id ORDER BY task_id')
      .all();
    expect(effects.map((row) => row['task_id'])).toEqual([...sent].sort());
    expect(effects.filter((row) => row['times'] !== 1)).toEqual([]);
    // I1: one write after another, and every running one but the first is a takeover with the next token.
    const writes = audit.prepare('SELECT task_id, version, token, state FROM writes ORDER BY rowid').all();
    const last = new Map<unknown, { version: number; token: number }>();
    let takeovers = 0;
    for (const { task_id, version, token, state } of writes) {
      const before = last.get(task_id) ?? { version: 0, token: 0 };
      expect(version).toBe(before.version + 1);
      expect(token).toBe(state === 'settled' ? before.token : before.token + 1);
      if (state === 'running' && version !== 1) takeovers++;
      last.set(task_id, { version: Number(version), token: Number(token) });
    }
    expect(takeovers).toBeGreaterThan(0);
    expect(audit.prepare('SELECT count(*) AS n FROM leasehold_message').get()?.['n']).toBe(0);
    audit.close();
    expect(integrity(file)).toEqual(['ok']);
    dispose();
  },
);
