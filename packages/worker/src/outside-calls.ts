/** The calls to the outside that an attempt has started: all have to end before the task is given back. */
export class OutsideCalls {
  /** Calls that ignored their timeout and its grace, and have not ended. */
  readonly abandoned: Promise<unknown>[] = [];
  readonly #running = new Set<Promise<unknown>>();
  readonly #waiting = new Set<() => void>();

  /** Makes a call. Once `patience` resolves it is not waited for any longer, and counts as abandoned. */
  async make<Result>(call: () => Promise<Result> | Result, patience?: Promise<void>): Promise<Result> {
    const running = (async () => call())();
    const ended = running.then(
      () => undefined,
      () => undefined,
    );
    const given = patience?.then(() => void this.abandoned.push(ended));
    const tracked = given ? Promise.race([ended, given]) : ended;
    this.#running.add(tracked);
    void tracked.then(() => this.#running.delete(tracked));
    return running;
  }

  /** Calls `listener` when the attempt ends, unless the returned function was called before. */
  whenOver(listener: () => void): () => void {
    this.#waiting.add(listener);
    return () => void this.#waiting.delete(listener);
  }

  /** The attempt has ended. */
  over(): void {
    for (const listener of this.#waiting) listener();
    this.#waiting.clear();
  }

  /** Resolves when none is waited for any longer. */
  async ended(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }
}
