import { PermanentError, readContent, type Json, type Timer } from '@leasehold/core';
import type { Attempt } from './attempt.ts';
import { createContext } from './context.ts';
import { issuePaths } from './standard-schema.ts';

/** How a handler ended; `running` when it outlived its grace after an abort. */
export type HandlerEnd = { readonly value: unknown } | { readonly error: unknown } | 'running';

/** One run of an attempt's handler. Its end, once every outside call it started has ended too or its grace is over, is told to `then`, or else to the attempt. */
export class HandlerRun {
  readonly #attempt: Attempt;
  readonly #then: ((end: HandlerEnd) => unknown) | undefined;
  #told = false;
  #grace: Timer | undefined;
  #leakEnded: (() => void) | undefined;

  constructor(attempt: Attempt, then?: (end: HandlerEnd) => unknown) {
    this.#attempt = attempt;
    this.#then = then;
  }

  start(): void {
    if (this.#attempt.aborted.reason) this.aborted();
    invoke(this.#attempt).then(
      (value) => this.#ended({ value }),
      (error: unknown) => this.#ended({ error }),
    );
  }

  /** From now on the handler has its grace, and no more. */
  aborted(): void {
    if (this.#told) return;
    const { clock, graceMs } = this.#attempt.services;
    const over = (): void => {
      this.#attempt.leaked(new Promise<void>((given) => (this.#leakEnded = given)));
      this.#tell('running');
    };
    this.#grace ??= clock.timer(graceMs, over, { background: true });
  }

  async #ended(end: Exclude<HandlerEnd, 'running'>): Promise<void> {
    const reject = (): void => {
      if ('value' in end) this.#attempt.reject(end.value);
    };
    // Of one that was given up already nobody waits for the calls, which may never end.
    const late = this.#leakEnded !== undefined;
    if (late) reject();
    await this.#attempt.outsideEnded();
    this.#grace?.cancel();
    if (!late && this.#leakEnded) reject();
    this.#leakEnded?.();
    this.#tell(end);
  }

  #tell(end: HandlerEnd): void {
    if (this.#told) return;
    this.#told = true;
    if (this.#then) this.#then(end);
    else this.#attempt.handlerEnded(end);
  }
}

/** At once where nothing has to be read or checked first. */
function invoke(attempt: Attempt): Promise<unknown> {
  const { definition, message, task } = attempt;
  try {
    if (!definition.input && !task.record.checkpoint)
      return Promise.resolve(definition.run(message.payload, createContext(attempt, undefined)));
    return read(attempt).then(({ input, checkpoint }) => definition.run(input, createContext(attempt, checkpoint)));
  } catch (error) {
    return Promise.reject(error);
  }
}

async function read(attempt: Attempt): Promise<{
  readonly input: unknown;
  readonly checkpoint: Json | undefined;
}> {
  const { definition, message, task, services } = attempt;
  let input: unknown = message.payload;
  if (definition.input) {
    const checked = await definition.input['~standard'].validate(message.payload);
    if (checked.issues)
      throw new PermanentError(`The payload does not fit the input of ${definition.type}: ${issuePaths(checked)}.`);
    input = checked.value;
  }
  const { checkpoint } = task.record;
  return {
    input,
    checkpoint: checkpoint && (await readContent(checkpoint, services.contentStore, attempt.signal)),
  };
}
