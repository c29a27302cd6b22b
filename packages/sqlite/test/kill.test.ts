import { DatabaseSync } from 'node:sqlite';
import { dirname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { sqliteBroker } from '@leasehold/sqlite';
import { bundle } from './bundle.ts';
import { startChild, type Child } from './child.ts';
import { machine, never } from './machine.ts';

const WORKERS = 4;
const KILLS = 200;
const LEASE_MS = '400';
const SEED = Math.floor(Math.random() * 1_000_000);

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

/** What the drivers never see: every write of a record, and the effects that were really done. */
const AUDIT = `
  CREATE TABLE effects (task_id TEXT, token INTEGER);
  CREATE TABLE writes (task_id TEXT, version INTEGER, token INTEGER, state TEXT);
  CREATE TRIGGER first_write AFTER INSERT ON leasehold_task BEGIN
    INSERT INTO writes VALUES (NEW.task_id, NEW.version, json_extract(NEW.document, '$.fencing_token'), NEW.state);
  END;
  CREATE TRIGGER later_write AFTER UPDATE ON leasehold_task BEGIN
    INSERT INTO writes VALUES (NEW.task_id, NEW.version, json_extract(NEW.document, '$.fencing_token'), NEW.state);
  END;`;

function audit(file: string, sent: readonly string[]): void {
  const db = new DatabaseSync(file);
  const once = [...sent].sort().map((task_id) => ({ task_id, times: 1 }));
  const count = (what: string): unknown[] =>
    db.prepare(`SELECT task_id, count(*) AS times FROM ${what} GROUP BY task_id ORDER BY task_id`).all();
  expect(count("writes WHERE state = 'settled'")).toEqual(once);
  expect(count('effects')).toEqual(once);
  // I1: one write after another, and every running one but the first is a takeover with the next token.
  const last = new Map<unknown, { version: number; token: number }>();
  let takeovers = 0;
  for (const { task_id, version, token, state } of db.prepare('SELECT * FROM writes ORDER BY rowid').all()) {
    const before = last.get(task_id) ?? { version: 0, token: 0 };
    expect(version).toBe(before.version + 1);
    expect(token).toBe(state === 'settled' ? before.token : before.token + 1);
    if (state === 'running' && version !== 1) takeovers++;
    last.set(task_id, { version: Number(version), token: Number(token) });
  }
  expect(takeovers).toBeGreaterThan(0);
  expect(db.prepare('SELECT count(*) AS n FROM leasehold_message').get()?.['n']).toBe(0);
  expect(db.prepare('PRAGMA integrity_check').get()?.['integrity_check']).toBe('ok');
  db.close();
}

test(
  `field case 28: ${KILLS} SIGKILLs at random over ${WORKERS} processes lose and double no task (seed ${SEED})`,
  { timeout: 300_000 },
  async () => {
    const random = randomFrom(SEED);
    const { file, dispose } = machine();
    const worker = await bundle(new URL('./kill-worker.ts', import.meta.url), dirname(file));
    const children: Child[] = [];
    const start = (...args: string[]): Child => {
      const child = startChild(worker, ...args);
      children.push(child);
      return child;
    };
    onTestFinished(async () => {
      await Promise.all(children.map(kill));
      dispose();
    });

    let kills = 0;
    // Killed while it makes the file: the next one goes on.
    for (; kills < 5; kills++) {
      const maker = start(file, LEASE_MS);
      await maker.said('opening');
      await pause(random() * 12);
      await kill(maker);
    }
    const broker = sqliteBroker({ file });
    await broker.open(never());
    const db = new DatabaseSync(file, { timeout: 5_000 });
    db.exec(AUDIT);
    db.close();
    const sent: string[] = [];
    const send = async (count: number): Promise<void> => {
      const ids = Array.from({ length: count }, (_, index) => `task ${sent.length + index}`);
      sent.push(...ids);
      const messages = ids.map((id) => ({ body: new TextEncoder().encode(id), attributes: {} }));
      const outcomes = await broker.send(messages, never());
      expect(outcomes.every((outcome) => 'messageId' in outcome)).toBe(true);
    };
    const slot = async (): Promise<void> => {
      let mine = start(file, LEASE_MS);
      while (kills < KILLS) {
        kills++;
        await send(3);
        // One in eight while it starts, the others anywhere in its work.
        if (random() > 0.125) await mine.said('ready');
        await pause(random() * 120);
        await kill(mine);
        mine = start(file, LEASE_MS);
      }
    };
    await Promise.all(Array.from({ length: WORKERS }, slot));
    for (;;) {
      const { visible, inFlight, delayed } = await broker.depth();
      if (visible + inFlight + delayed === 0) break;
      await pause(50);
    }
    await broker.close();
    audit(file, sent);
  },
);
