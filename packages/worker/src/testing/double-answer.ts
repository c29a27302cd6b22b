import type { Json } from '@leasehold/core';

/** What a double answers: status 200, no headers and `null` unless given. */
export interface DoubleAnswer {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly body?: Json;
}

/** An answer with every part. */
export function answerTo({ status = 200, headers = {}, body = null }: DoubleAnswer): Required<DoubleAnswer> {
  return { status, headers, body };
}
