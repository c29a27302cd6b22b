import { isTerminal, type TaskState } from '@leasehold/core';
import type { Entry } from './journal.ts';
import type { Seen, WriteAnswered, WriteSent } from './said.ts';

/** A conditional write as its process saw it. Without an answer it may have been applied or not. */
export interface Write extends Omit<WriteSent, 'kind' | 'n'> {
  readonly who: string;
  readonly sentAt: number;
  readonly answered?: { readonly at: number; readonly answer: WriteAnswered['answer']; readonly shown?: Seen };
}

/** The writes of all processes, put together from their journals as these grow. */
export class Writes {
  readonly #all: Write[] = [];
  readonly #open = new Map<string, number>();
  /** The end of each task, as far as an answered write said so. */
  readonly ended: Map<string, TaskState> = new Map();

  get all(): readonly Write[] {
    return this.#all;
  }

  add(entries: readonly Entry[]): void {
    for (const entry of entries) {
      if (entry.kind === 'sent') {
        const { kind: _kind, n, at, ...rest } = entry;
        this.#open.set(`${entry.who} ${n}`, this.#all.length);
        this.#all.push({ ...rest, sentAt: at });
      } else if (entry.kind === 'answered') {
        const index = this.#open.get(`${entry.who} ${entry.n}`);
        const write = index === undefined ? undefined : this.#all[index];
        if (index === undefined || !write) continue;
        const { at, answer, shown } = entry;
        this.#all[index] = { ...write, answered: { at, answer, ...(shown && { shown }) } };
        if (answer === 'ok' && isTerminal(write.next.state)) this.ended.set(write.taskId, write.next.state);
      }
    }
  }
}

/** The writes that the ledger accepted and said so, by task, in the order of their versions. */
export function accepted(
  writes: readonly Write[],
): ReadonlyMap<string, readonly (Write & { readonly answered: { readonly at: number } })[]> {
  const byTask = new Map<string, (Write & { readonly answered: { readonly at: number } })[]>();
  for (const write of writes) {
    if (write.answered?.answer !== 'ok') continue;
    const own = byTask.get(write.taskId) ?? [];
    own.push(write as Write & { readonly answered: { readonly at: number } });
    byTask.set(write.taskId, own);
  }
  for (const own of byTask.values())
    own.sort((one, other) => one.next.version - other.next.version || one.sentAt - other.sentAt);
  return byTask;
}
