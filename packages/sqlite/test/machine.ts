import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { virtualClock, type VirtualClock } from '@leasehold/core';
import type { BootClock } from '@leasehold/sqlite';

/** A machine whose time a test moves: one database file, any number of processes, reboots. */
export interface Machine {
  readonly clock: VirtualClock;
  readonly file: string;
  /** Options for the drivers of one more process: a connection of its own. */
  process(): { readonly file: string; readonly clock: VirtualClock; readonly bootClock: BootClock };
  /** Starts the machine anew: what was running before is gone, and the uptime begins at `uptimeMs`. */
  reboot(uptimeMs?: number): void;
  dispose(): void;
}

/** `bootIds: false` is a machine whose system has no boot id. */
export function machine({ bootIds = true, startWall = 1_700_000_000_000 } = {}): Machine {
  const directory = mkdtempSync(join(tmpdir(), 'leasehold-sqlite-'));
  const file = join(directory, 'store.db');
  const clock = virtualClock(startWall);
  let boot = 1;
  let startedAt = 0;
  return {
    clock,
    file,
    process() {
      const [mine, start] = [boot, startedAt];
      const bootClock: BootClock = {
        bootId: bootIds ? `boot-${mine}` : undefined,
        uptimeMs: () => clock.monotonic() - start,
        resolutionMs: 0,
      };
      return { file, clock, bootClock };
    },
    reboot(uptimeMs = 1_000) {
      boot++;
      startedAt = clock.monotonic() - uptimeMs;
    },
    dispose: () => rmSync(directory, { recursive: true, force: true }),
  };
}

/** A signal that never aborts. */
export function never(): AbortSignal {
  return new AbortController().signal;
}
