/** Something about an emulator's options or server that has to be put right. Its message names the field and the remedy. */
export class EmulatorError extends Error {
  override readonly name: string = 'EmulatorError';
  /** The option that is wrong, such as `port`. */
  readonly field: string;
  readonly remedy: string;

  constructor(field: string, what: string, remedy: string, cause?: unknown) {
    super(`${field}: ${what}; ${remedy}.`, cause === undefined ? undefined : { cause });
    this.field = field;
    this.remedy = remedy;
  }
}
