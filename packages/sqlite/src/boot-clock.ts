import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';

/**
 * The machine's own clock since it was started. Every process on the machine reads the same one, and nobody can set it: a container
 * whose wall clock is skewed or stepped still agrees with its neighbours about when a lease is over.
 */
export interface BootClock {
  /** Names this run of the machine: another id means that every process that held a lease is gone. `undefined` where the system has none. */
  readonly bootId: string | undefined;
  /** Milliseconds since the machine was started, sleep included. Never goes back within one boot. */
  uptimeMs(): number;
  /** How far `uptimeMs` may lie behind the truth, in milliseconds. Default 10. */
  readonly resolutionMs?: number;
}

/** What a boot clock that says nothing is taken to be exact to. */
export const DEFAULT_RESOLUTION_MS = 10;

let system: BootClock | undefined;

/**
 * The boot clock of this machine. On Linux `/proc/uptime` (10 ms steps) and the kernel's boot id; elsewhere the high-resolution
 * counter, which also starts with the machine, without a boot id (`docs/decisions/sqlite-clock.md` says what that costs).
 */
export function systemBootClock(): BootClock {
  system ??= process.platform === 'linux' ? linuxClock() : counterClock();
  return system;
}

function linuxClock(): BootClock {
  // os.uptime() reads /proc/uptime: no library that fakes the time for this process gets between.
  return { bootId: linuxBootId(), uptimeMs: () => Math.round(uptime() * 1_000), resolutionMs: DEFAULT_RESOLUTION_MS };
}

function linuxBootId(): string | undefined {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim() || undefined;
  } catch {
    // A sandbox that hides the file: the fallback without a boot id serves.
    return undefined;
  }
}

function counterClock(): BootClock {
  return { bootId: undefined, uptimeMs: () => Number(process.hrtime.bigint() / 1_000_000n), resolutionMs: 1 };
}
