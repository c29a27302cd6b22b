/** A body that a handler writes piece by piece, read as a stream. */
export interface WrittenBody {
  readonly stream: ReadableStream<Uint8Array>;
  /** False when the writer had better wait for the drain. */
  write(chunk: unknown, encoding: BufferEncoding | undefined): boolean;
  close(): void;
  /** What comes from here on goes nowhere. */
  drop(): void;
  fail(error: unknown): void;
}

/** `onDrain`: more can be written. `onUnwanted`: the reader has lost interest. */
export function writtenBody(onDrain: () => void, onUnwanted: () => void): WrittenBody {
  let open = true;
  let waiting = false;
  let controller!: ReadableStreamDefaultController<Uint8Array>;
  const drain = (): void => {
    if (waiting) onDrain();
    waiting = false;
  };
  const stream = new ReadableStream<Uint8Array>(
    {
      start(made) {
        controller = made;
      },
      pull: drain,
      cancel() {
        open = false;
        onUnwanted();
        drain();
      },
    },
    new ByteLengthQueuingStrategy({ highWaterMark: 16 * 1024 }),
  );
  return {
    stream,
    write(chunk, encoding) {
      if (!open || chunk === undefined || chunk === null) return true;
      const bytes = typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk;
      if (!(bytes instanceof Uint8Array)) throw new TypeError('A response body is written as text or bytes.');
      if (bytes.byteLength > 0) controller.enqueue(bytes);
      waiting = (controller.desiredSize ?? 0) <= 0;
      return !waiting;
    },
    close() {
      if (open) controller.close();
      open = false;
    },
    drop() {
      open = false;
    },
    fail(error) {
      if (open) controller.error(error);
      open = false;
      drain();
    },
  };
}
