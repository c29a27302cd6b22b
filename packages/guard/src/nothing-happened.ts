const BRAND = Symbol.for('leasehold.guard.nothing-happened');

/**
 * Thrown by a handler that knows it changed nothing: the key is freed, and the caller is told to try again
 * (503, `urn:leasehold:problem:nothing-happened`). The message stays on the receiver's side.
 */
export class NothingHappened extends Error {
  override readonly name: string = 'NothingHappened';

  constructor(message = 'nothing happened', detail: { cause?: unknown } = {}) {
    super(message, 'cause' in detail ? { cause: detail.cause } : undefined);
    Object.defineProperty(this, BRAND, { value: true });
  }
}

/** True for a {@link NothingHappened} of any installed copy of the package. */
export function isNothingHappened(error: unknown): error is NothingHappened {
  return typeof error === 'object' && error !== null && (error as Record<symbol, unknown>)[BRAND] === true;
}
