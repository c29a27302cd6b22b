import type { StatementSync } from 'node:sqlite';
import { LeaseholdError, type StoreTime } from '@leasehold/core';
import { DEFAULT_RESOLUTION_MS, type BootClock } from './boot-clock.ts';

/** Store time at one moment, and the boot it belongs to. */
export interface StoreInstant extends StoreTime {
  /** The number of this boot in the file; a lease of another number is over. */
  readonly boot: number;
  /** Store time at which the file was first used in this boot. */
  readonly bootStartedAt: number;
}

interface BootRow {
  readonly boot: number;
  readonly boot_id: string | null;
  readonly started_at: number;
  readonly offset_ms: number;
  readonly high_ms: number;
}

type Statements = (sql: string) => StatementSync;

/** How far store time runs on before its height is written down again: a reboot starts at least this far above it. */
const MARK_EVERY_MS = 1_000;
/** Hands back all messages of earlier boots. Through the index of what is held: this runs with everybody waiting. */
export const FREE_HELD: string =
  'UPDATE leasehold_message INDEXED BY leasehold_message_held SET visible_at = ?, boot = NULL WHERE boot IS NOT NULL';
/** Without a boot id: how far the uptime has to have gone back to mean a reboot. Taking a live boot for a new one would end leases early. */
const REBOOT_MS = 100;

/**
 * Store time: the boot clock plus an offset that the first user of the file in each boot writes down, so that all processes agree
 * and a changed wall clock changes nothing. It never falls below what an earlier boot has seen.
 */
export class StoreClock {
  readonly resolutionMs: number;
  readonly #bootClock: BootClock;
  readonly #wall: () => number;
  #row: BootRow | undefined;
  #pending: BootRow | undefined;

  constructor(bootClock: BootClock, wall: () => number) {
    this.#bootClock = bootClock;
    this.#wall = wall;
    this.resolutionMs = bootClock.resolutionMs ?? DEFAULT_RESOLUTION_MS;
  }

  /**
   * Store time inside a write transaction, which serialises this with every other process.
   *
   * @throws LeaseholdError `unavailable` when this process does not share a boot clock with the others on the file.
   */
  observe(statement: Statements): StoreInstant {
    const row = statement('SELECT * FROM leasehold_boot ORDER BY boot DESC LIMIT 1').get() as BootRow | undefined;
    const uptime = this.#bootClock.uptimeMs();
    const known = row !== undefined && this.#isThisBoot(statement, row, uptime);
    let current = known ? row : this.#newBoot(statement, row, uptime);
    const time = Math.floor(current.offset_ms + uptime);
    if (time - current.high_ms >= MARK_EVERY_MS) {
      statement('UPDATE leasehold_boot SET high_ms = ? WHERE boot = ?').run(time, current.boot);
      current = { ...current, high_ms: time };
    }
    this.#pending = current;
    return this.#instant(current, time);
  }

  /** To be called once the transaction of the last `observe` is committed. */
  committed(): void {
    this.#row = this.#pending;
  }

  /** Store time outside a transaction; `undefined` when it takes a write to tell (the first use, or another boot). */
  glance(): StoreInstant | undefined {
    const row = this.#row;
    if (!row || row.boot_id !== (this.#bootClock.bootId ?? null)) return undefined;
    const time = Math.floor(row.offset_ms + this.#bootClock.uptimeMs());
    return time < row.high_ms ? undefined : this.#instant(row, time);
  }

  #instant(row: BootRow, time: number): StoreInstant {
    // Never below the mark: two clocks may differ by their resolution.
    const earliest = Math.max(time, row.high_ms);
    return { earliest, latest: earliest + this.resolutionMs, boot: row.boot, bootStartedAt: row.started_at };
  }

  #isThisBoot(statement: Statements, row: BootRow, uptime: number): boolean {
    const { bootId } = this.#bootClock;
    const behindMs = row.high_ms - (row.offset_ms + uptime);
    // Without a boot id only a counter that went back tells. A reboot that is missed only delays: see the decision.
    if (bootId === undefined) return row.boot_id === null && behindMs <= REBOOT_MS;
    if (row.boot_id !== bootId) {
      if (!statement('SELECT 1 FROM leasehold_boot WHERE boot_id = ?').get(bootId)) return false;
      throw new LeaseholdError(
        'unavailable',
        'The database file is used by two machines at once (or by sandboxes that each have a kernel of their own): boot ids alternate. ' +
          'One SQLite file serves the processes of one machine; use a server database for several.',
        { field: 'file' },
      );
    }
    if (behindMs > 2 * this.resolutionMs) {
      throw new LeaseholdError(
        'unavailable',
        `The boot clock of this process is ${Math.round(behindMs)} ms behind the one other processes on the file use, within one boot. ` +
          'Something gives containers an uptime of their own (lxcfs, time namespaces); pass the same bootClock to all of them.',
        { field: 'bootClock' },
      );
    }
    return true;
  }

  #newBoot(statement: Statements, before: BootRow | undefined, uptime: number): BootRow {
    const wall = this.#wall();
    const floor = before ? before.high_ms + MARK_EVERY_MS : 0;
    const start = Math.floor(Math.max(Number.isFinite(wall) ? wall : 0, floor));
    const row: BootRow = {
      boot: (before?.boot ?? 0) + 1,
      boot_id: this.#bootClock.bootId ?? null,
      started_at: start,
      offset_ms: Math.ceil(start - uptime),
      high_ms: start,
    };
    statement('INSERT INTO leasehold_boot (boot, boot_id, started_at, offset_ms, high_ms) VALUES (?, ?, ?, ?, ?)').run(
      row.boot,
      row.boot_id,
      row.started_at,
      row.offset_ms,
      row.high_ms,
    );
    // Whoever held these is gone with the boot.
    statement(FREE_HELD).run(row.started_at);
    return row;
  }
}
