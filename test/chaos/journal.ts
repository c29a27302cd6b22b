import { closeSync, fstatSync, openSync, readdirSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Said } from './said.ts';
import { moment } from './moments.ts';

/** One line of a journal: what was said, by which process and when. */
export type Entry = Said & {
  /** The machine's monotonic clock, milliseconds. */
  readonly at: number;
  /** The process: its place and which process of that place it is, such as `worker-2.3`. */
  readonly who: string;
};

const SUFFIX = '.jsonl';
const CHUNK = 1 << 18;

/** Opens a process's journal. A line is with the system when this returns: SIGKILL takes none back. */
export function openJournal(directory: string, who: string): (said: Said) => void {
  const file = openSync(join(directory, `${who}${SUFFIX}`), 'a');
  return (said) => void writeSync(file, `${JSON.stringify({ at: moment(), ...said })}\n`);
}

/** What one process said so far, for a process that goes on where another was killed. */
export function readJournals(directory: string, place: string): readonly Entry[] {
  const reader = new JournalReader(directory);
  return reader.read().filter(({ who }) => who.startsWith(`${place}.`));
}

/** Reads the journals of all processes while they are written. */
export class JournalReader {
  readonly #directory: string;
  readonly #files = new Map<string, { readonly fd: number; offset: number; rest: Buffer }>();

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** The lines since the last call, in each process's order. A line that is still being written comes with the next call. */
  read(): Entry[] {
    const entries: Entry[] = [];
    for (const name of readdirSync(this.#directory)) {
      if (!name.endsWith(SUFFIX)) continue;
      const who = name.slice(0, -SUFFIX.length);
      let file = this.#files.get(name);
      if (!file)
        this.#files.set(
          name,
          (file = { fd: openSync(join(this.#directory, name), 'r'), offset: 0, rest: Buffer.alloc(0) }),
        );
      const size = fstatSync(file.fd).size;
      while (file.offset < size) {
        const chunk = Buffer.alloc(Math.min(CHUNK, size - file.offset));
        const count = readSync(file.fd, chunk, 0, chunk.length, file.offset);
        file.offset += count;
        const bytes = Buffer.concat([file.rest, chunk.subarray(0, count)]);
        const end = bytes.lastIndexOf(10) + 1;
        file.rest = bytes.subarray(end);
        for (const line of bytes.subarray(0, end).toString('utf8').split('\n')) {
          if (line !== '') entries.push({ ...(JSON.parse(line) as Said & { at: number }), who });
        }
      }
    }
    return entries;
  }

  close(): void {
    for (const { fd } of this.#files.values()) closeSync(fd);
    this.#files.clear();
  }
}
