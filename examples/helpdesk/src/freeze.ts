import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import type { Child } from './fleet.ts';

const LOOK_MS = 10;
const LOOKS = 50;

/**
 * Stops a process, and makes sure that it stands still and that the others can go on: one that was stopped holding a lock (`isFree` says
 * so) is let go on for a moment and stopped again.
 */
export async function freeze(child: Child, isFree: () => boolean, signal: AbortSignal): Promise<void> {
  for (;;) {
    signal.throwIfAborted();
    child.pause();
    if ((await standsStill(child.pid)) && isFree()) return;
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
