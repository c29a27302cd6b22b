/** A handler that runs, and how many of its `ctx` calls it waits for. */
interface Handler {
  waits: number;
}

/**
 * Whether a process runs code of the user's, for which virtual time has to stand still: nobody knows how long in virtual time it takes.
 * While a handler only waits for what it asked of its context, time may pass.
 */
export class Activity {
  /** Rises with every change: as long as it rises, the code is getting on. */
  turns = 0;
  /** What of the user's was entered last, for messages. */
  last = 'the handler';
  readonly #handlers = new Set<Handler>();
  #callbacks = 0;

  /** True while code of the user's is running, or awaits something of its own. */
  get busy(): boolean {
    return this.#callbacks > 0 || [...this.#handlers].some((handler) => handler.waits === 0);
  }

  /** Runs a handler; `wait` wraps what it asks of its context. */
  async handler<Result>(
    run: (wait: <Answer>(ask: () => Promise<Answer>) => Promise<Answer>) => Promise<Result>,
  ): Promise<Result> {
    const handler: Handler = { waits: 0 };
    this.#enter('the handler');
    this.#handlers.add(handler);
    const wait = async <Answer>(ask: () => Promise<Answer>): Promise<Answer> => {
      handler.waits++;
      this.turns++;
      try {
        return await ask();
      } finally {
        handler.waits--;
        this.turns++;
      }
    };
    try {
      return await run(wait);
    } finally {
      this.#handlers.delete(handler);
      this.turns++;
    }
  }

  /** Runs a function that the handler gave to its context. */
  async callback<Result>(what: string, run: () => Promise<Result> | Result): Promise<Result> {
    this.#enter(what);
    this.#callbacks++;
    try {
      return await run();
    } finally {
      this.#callbacks--;
      this.turns++;
    }
  }

  #enter(what: string): void {
    this.last = what;
    this.turns++;
  }
}
