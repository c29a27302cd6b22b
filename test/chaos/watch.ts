import { JournalReader, type Entry } from './journal.ts';
import { moment } from './moments.ts';
import type { Moment } from './said.ts';
import type { Child } from './fleet.ts';
import { setTimeout as pause } from 'node:timers/promises';
import { Writes } from './writes.ts';

const TICK_MS = 100;
const NEAR_MS = 2_000;

/** What the processes of a run have written down and tell of, while they run. */
export class Watch {
  readonly entries: Entry[] = [];
  readonly writes: Writes = new Writes();
  /** When a task last ended or was asked for. */
  movedAt: number = moment();
  readonly #reader: JournalReader;
  readonly #listeners = new Set<(who: string, what: Moment) => void>();
  readonly #timer: NodeJS.Timeout;

  constructor(journals: string) {
    this.#reader = new JournalReader(journals);
    this.#timer = setInterval(() => this.read(), TICK_MS);
  }

  read(): void {
    const entries = this.#reader.read();
    const ended = this.writes.ended.size;
    for (const entry of entries) this.entries.push(entry);
    this.writes.add(entries);
    if (this.writes.ended.size > ended || entries.some(({ kind }) => kind === 'step')) this.movedAt = moment();
  }

  /** A process tells of a moment. */
  heard(who: string, what: Moment): void {
    for (const listener of this.#listeners) listener(who, what);
  }

  /** Waits for a moment of a worker. False when it does not come within `ms`, or the worker is gone. */
  moment(kind: 'calling' | 'stored', child: Child, ms: number): Promise<boolean> {
    return new Promise((resolve) => {
      const end = (came: boolean): void => {
        clearTimeout(timer);
        clearInterval(looking);
        this.#listeners.delete(listener);
        resolve(came);
      };
      const listener = (_who: string, what: Moment): void => {
        if (what.kind === kind && what.worker === child.who) end(true);
      };
      const timer = setTimeout(() => end(false), ms);
      const looking = setInterval(() => (child.ended === undefined ? undefined : end(false)), TICK_MS);
      this.#listeners.add(listener);
    });
  }

  /** Whether the process says within `ms` that its clock is shifted so. Absent when it ends before that. */
  async clock(child: Child, shiftMs: number, ms: number): Promise<boolean | undefined> {
    for (const end = moment() + ms; moment() < end; await pause(TICK_MS)) {
      const last = this.entries.findLast((entry) => entry.kind === 'clock' && entry.who === child.who);
      const seen = last?.kind === 'clock' ? last.shiftMs : 0;
      if (Math.abs(seen - shiftMs) < NEAR_MS) return true;
      if (child.ended !== undefined) return undefined;
    }
    return false;
  }

  close(): void {
    clearInterval(this.#timer);
    this.#reader.close();
  }
}
