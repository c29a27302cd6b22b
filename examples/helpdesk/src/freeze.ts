import { existsSync, readFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import type { Child } from './fleet.ts';

const LOOK_MS = 10;
const LOOKS = 50;

/**
 * Stops a process, and makes sure that it stands still and holds no lock on the database: a process stopped inside a transaction would
 * stop every other one with it, so that one is let go on for a moment and stopped again.
 */
export async function freeze(child: Child, file: string, signal: AbortSignal): Promise<void> {
  for (;;) {
    signal.throwIfAborted();
    child.pause();
    if ((await standsStill(child.pid)) && isWritable(file)) return;
    child.resume();
    await pause(LOOK_MS);
  }
}

async function standsStill(pid: number): Promise<boolean> {
  const status = `/proc/${pid}/stat`;
  if (!existsSync('/proc/self/stat')) {
    // No way to look, but a signal sent a while ago has arrived.
    await pause(LOOK_MS * LOOKS);
    return true;
  }
  for (let looks = 0; looks < LOOKS; looks++) {
    // The state comes after the program's name, which is in parentheses and may hold anything.
    if (/\) T [^)]*$/.test(readFileSync(status, 'utf8'))) return true;
    await pause(LOOK_MS);
  }
  return false;
}

function isWritable(file: string): boolean {
  const db = new DatabaseSync(file);
  try {
    db.exec('PRAGMA busy_timeout = 250');
    db.exec('BEGIN IMMEDIATE');
    db.exec('ROLLBACK');
    return true;
  } catch {
    // Locked; whatever else is wrong with the file shows elsewhere.
    return false;
  } finally {
    db.close();
  }
}
