/** Beside a body that SQS cannot carry as it is. */
export const ENCODING_ATTRIBUTE = 'leaseholdencoding';

// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html, MessageBody.
const REFUSED = /[^\t\n\r\u{20}-\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]/u;
// SQS takes no empty body; decodes to nothing.
const EMPTY = '=';

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

/** A body as SQS carries it: text. */
export interface MessageText {
  readonly text: string;
  /** The text is base64: the bytes are no UTF-8, empty, or hold characters that SQS refuses. */
  readonly encoded: boolean;
}

/** True for a text that SQS takes as a body or the value of an attribute. */
export function isCarried(text: string): boolean {
  return text !== '' && !REFUSED.test(text);
}

/** Writes a body, without loss. */
export function textOfBody(body: Uint8Array): MessageText {
  let text: string | undefined;
  try {
    text = strict.decode(body);
  } catch {
    // Not UTF-8, so it travels encoded.
    text = undefined;
  }
  if (text !== undefined && isCarried(text)) return { text, encoded: false };
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  return { text: bytes.toString('base64') || EMPTY, encoded: true };
}

/** Reads a body back. */
export function bodyOfText({ text, encoded }: MessageText): Uint8Array {
  return encoded ? new Uint8Array(Buffer.from(text, 'base64')) : encoder.encode(text);
}
