import { LeaseholdError } from '@leasehold/core';

/** A body read to its end, or one that is longer than was allowed, still readable from its beginning. */
export type Collected = { readonly bytes: Uint8Array<ArrayBuffer> } | { readonly over: ReadableStream<Uint8Array> };

/** Reads at most `max` bytes (and the chunk that crosses the line) into memory. */
export async function collectBody(stream: ReadableStream<Uint8Array> | null, max: number): Promise<Collected> {
  if (stream === null) return { bytes: new Uint8Array(0) };
  const reader = stream.getReader();
  const chunks: Uint8Array[] = [];
  let total = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { bytes: join(chunks, total) };
    if (!(value instanceof Uint8Array)) throw new TypeError('A body stream gave something other than bytes.');
    chunks.push(value);
    total += value.byteLength;
    if (total > max) return { over: resume(chunks, reader) };
  }
}

function join(chunks: readonly Uint8Array[], total: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(total);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.byteLength;
  }
  return bytes;
}

function resume(
  chunks: readonly Uint8Array[],
  reader: ReadableStreamDefaultReader<Uint8Array>,
): ReadableStream<Uint8Array> {
  const waiting = [...chunks];
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const next = waiting.shift();
      if (next) {
        controller.enqueue(next);
        return;
      }
      const { done, value } = await reader.read();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

/** A Fetch request whose body the guard reads first and the handler once more. */
export interface RereadableRequest {
  /** The body, or undefined when it is longer than `max` bytes. */
  readonly body: (max: number) => Promise<Uint8Array | undefined>;
  /** The request for the handler, body included, with another signal than the connection's if one is given. */
  readonly rebuild: (signal: AbortSignal | undefined) => Request;
}

/** Wraps a request that nobody has read from yet. */
export function rereadable(request: Request): RereadableRequest {
  let read: Promise<Collected> | undefined;
  let collected: Collected | undefined;
  return {
    async body(max) {
      if (!read && request.bodyUsed) {
        const remedy = 'The request body was read before the guard saw it; mount the guard first.';
        throw new LeaseholdError('bad-request', remedy, { field: 'body' });
      }
      read ??= collectBody(request.body, max);
      collected = await read;
      return 'bytes' in collected ? collected.bytes : undefined;
    },
    rebuild(signal) {
      if (!collected) return request;
      const init = signal ? { signal } : {};
      // Variables, because a lint rule takes a request without a literal method for a GET.
      const whole = 'bytes' in collected ? { ...init, body: collected.bytes } : undefined;
      const streamed = 'over' in collected ? { ...init, body: collected.over, duplex: 'half' as const } : init;
      return new Request(request, request.body === null ? init : (whole ?? streamed));
    },
  };
}
