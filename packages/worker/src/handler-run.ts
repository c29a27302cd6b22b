import { PermanentError, readContent, type Json, type Timer } from '@leasehold/core';
import type { Attempt } from './attempt.ts';
import { createContext } from './context.ts';
import { issuePaths } from './standard-schema.ts';

/** How a handler ended; `running` when it outlived its grace after an abort. */
export type HandlerEnd = { readonly value: unknown } | { readonly error: unknown } | 'running';

/** Runs the handler; resolves when it and every outside call it started have ended, or its grace is over. */
export function runHandler(attempt: Attempt): Promise<HandlerEnd> {
  const { aborted, services } = attempt;
  return new Promise((resolve) => {
    let grace: Timer | undefined;
    let leakEnded: (() => void) | undefined;
    const ended = async (end: Exclude<HandlerEnd, 'running'>): Promise<void> => {
      if (!attempt.quiet) await attempt.outside.ended();
      grace?.cancel();
      aborted.listen(undefined);
      if (leakEnded && 'value' in end) attempt.reject(end.value);
      leakEnded?.();
      resolve(end);
    };
    const leak = (): void => {
      attempt.leaked(new Promise<void>((given) => (leakEnded = given)));
      resolve('running');
    };
    aborted.listen(() => void (grace ??= services.clock.timer(services.graceMs, leak, { background: true })));
    invoke(attempt).then(
      (value) => ended({ value }),
      (error: unknown) => ended({ error }),
    );
  });
}

/** At once where nothing has to be read or checked first. */
function invoke(attempt: Attempt): Promise<unknown> {
  const { definition, message, task } = attempt;
  const run = (input: unknown, checkpoint: Json | undefined): unknown =>
    definition.run(input, createContext(attempt, checkpoint));
  try {
    if (!definition.input && !task.record.checkpoint) return Promise.resolve(run(message.payload, undefined));
    return read(attempt).then(({ input, checkpoint }) => run(input, checkpoint));
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
