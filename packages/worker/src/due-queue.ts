/** Something with a due time that it keeps itself. */
export interface Due {
  dueAt: number;
  /** Its place in the queue; -1 when it is in none. The queue's own business. */
  place: number;
}

/** A binary heap by `dueAt`; entries can be moved and removed from the middle in O(log n). */
export class DueQueue<Entry extends Due> {
  readonly #heap: Entry[] = [];

  get size(): number {
    return this.#heap.length;
  }

  first(): Entry | undefined {
    return this.#heap[0];
  }

  /** Adds an entry, or puts it at its new place. */
  set(entry: Entry, dueAt: number): void {
    entry.dueAt = dueAt;
    if (entry.place < 0) {
      entry.place = this.#heap.length;
      this.#heap.push(entry);
    }
    this.#down(this.#up(entry.place));
  }

  remove(entry: Entry): void {
    const place = entry.place;
    if (place < 0) return;
    const last = this.#heap.pop() as Entry;
    entry.place = -1;
    if (last === entry) return;
    this.#put(last, place);
    this.#down(this.#up(place));
  }

  #put(entry: Entry, place: number): void {
    this.#heap[place] = entry;
    entry.place = place;
  }

  #up(from: number): number {
    let place = from;
    const entry = this.#heap[place] as Entry;
    while (place > 0) {
      const above = (place - 1) >> 1;
      const parent = this.#heap[above] as Entry;
      if (parent.dueAt <= entry.dueAt) break;
      this.#put(parent, place);
      place = above;
    }
    this.#put(entry, place);
    return place;
  }

  #down(from: number): void {
    let place = from;
    const entry = this.#heap[place] as Entry;
    for (;;) {
      const left = 2 * place + 1;
      const right = left + 1;
      const smaller =
        right < this.#heap.length && (this.#heap[right] as Entry).dueAt < (this.#heap[left] as Entry).dueAt
          ? right
          : left;
      const child = this.#heap[smaller];
      if (!child || child.dueAt >= entry.dueAt) break;
      this.#put(child, place);
      place = smaller;
    }
    this.#put(entry, place);
  }
}
