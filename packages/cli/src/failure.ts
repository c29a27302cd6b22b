/**
 * Exit codes: 0 done; 1 refused, not found, or a promise was not kept; 2 the command line cannot be used; what was stopped from outside ends as
 * shells say it, with 128 and the number of the signal.
 */
export const EXIT = { ok: 0, failed: 1, usage: 2, SIGINT: 130, SIGTERM: 143 } as const;

/** Ends a command with a message on stderr and an exit code. */
export class CliFailure extends Error {
  override readonly name: string = 'CliFailure';
  readonly exitCode: 1 | 2;

  constructor(exitCode: 1 | 2, message: string, detail: { readonly cause?: unknown } = {}) {
    super(message, detail);
    this.exitCode = exitCode;
  }
}
