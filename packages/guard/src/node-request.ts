import type { Readable } from 'node:stream';

/** A request body as Node reads it. */
export interface IncomingBody extends Readable {
  /** True once the whole message has arrived. */
  readonly complete: boolean;
  readonly headers: { readonly [name: string]: string | readonly string[] | undefined };
  readonly httpVersionMajor: number;
}

/** Headers by name, in any case. What came twice is joined by a comma, so that a field that is sent once cannot be read from two. */
export function headersOf(rawHeaders: readonly string[]): { get(name: string): string | null } {
  return {
    get(name) {
      const wanted = name.toLowerCase();
      const values = rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === wanted);
      return values.length === 0 ? null : values.join(', ');
    },
  };
}

/**
 * Reads a body that nobody has read from yet, and puts it back: whoever reads next finds it as it came. Undefined when it is longer than
 * `max` bytes.
 */
export function readAhead(stream: IncomingBody, max: number): Promise<Uint8Array | undefined> {
  // An empty body is left alone, as there would be nothing to put back before its end.
  if (stream.httpVersionMajor === 1 && !hasBody(stream)) return Promise.resolve(new Uint8Array(0));
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    const stop = (): void => {
      stream.off('readable', onReadable).off('end', onEnd).off('error', reject).off('close', onClose);
    };
    const finish = (whole: boolean): void => {
      stop();
      const bytes = Buffer.concat(chunks, length);
      // Allowed until the end has been announced, which happens in a later turn.
      if (length > 0) stream.unshift(bytes);
      resolve(whole ? bytes : undefined);
    };
    const onReadable = (): void => {
      for (let chunk = stream.read() as Buffer | null; chunk !== null; chunk = stream.read() as Buffer | null) {
        chunks.push(chunk);
        length += chunk.byteLength;
        if (length > max) return finish(false);
      }
      if (stream.complete) finish(true);
    };
    const onEnd = (): void => finish(true);
    const onClose = (): void => {
      stop();
      reject(new Error('The connection closed before the whole body had arrived.'));
    };
    stream.on('readable', onReadable).on('end', onEnd).on('error', reject).on('close', onClose);
  });
}

function hasBody({ headers }: IncomingBody): boolean {
  const length = headers['content-length'];
  return headers['transfer-encoding'] !== undefined || (length !== undefined && Number(length) !== 0);
}
