import type { TaskAborted } from './abort-reason.ts';

/** The end of one handler's right to go on. Its `AbortSignal` is made for whoever asks for it: most tasks never do. */
export class Abort {
  #reason: TaskAborted | undefined;
  #controller: AbortController | undefined;

  get reason(): TaskAborted | undefined {
    return this.#reason;
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#reason) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  /** Whether anybody asked for the signal. */
  get watched(): boolean {
    return this.#controller !== undefined;
  }

  /** The first reason stays. */
  abort(reason: TaskAborted): void {
    if (this.#reason) return;
    this.#reason = reason;
    this.#controller?.abort(reason);
  }

  throwIfAborted(): void {
    if (this.#reason) throw this.#reason;
  }
}
