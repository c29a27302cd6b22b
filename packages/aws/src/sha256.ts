import { createHash, createHmac, createSecretKey, type KeyObject } from 'node:crypto';

/** A hash or an HMAC under way. */
interface Hashing {
  update(data: string | Uint8Array, encoding?: 'utf8' | 'ascii' | 'latin1'): unknown;
  digest(): Buffer;
}

/** Keys by the bytes they were made of, as long as somebody has those: the SDK signs with the same ones all day, and never changes them. */
const keys = new WeakMap<ArrayBuffer | ArrayBufferView, KeyObject>();

/**
 * SHA-256 as the SDK takes it, for signing. Its own hands the key of an HMAC to Node as bytes, and Node 24 finds out that they are no key
 * object by throwing twice: 26 us where a key object needs 5.
 */
export class Sha256 {
  readonly #secret: string | ArrayBuffer | ArrayBufferView | undefined;
  #hash: Hashing;

  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.#secret = secret;
    this.#hash = this.#begin();
  }

  /** Takes more of what is hashed. */
  update(data: string | ArrayBuffer | ArrayBufferView, encoding?: 'utf8' | 'ascii' | 'latin1'): void {
    this.#hash.update(typeof data === 'string' ? data : bytesOf(data), encoding);
  }

  /** The 32 bytes of what was taken. */
  async digest(): Promise<Uint8Array> {
    return this.#hash.digest();
  }

  /** Begins again, with the same secret. */
  reset(): void {
    this.#hash = this.#begin();
  }

  #begin(): Hashing {
    const secret = this.#secret;
    if (secret === undefined) return createHash('sha256');
    return createHmac('sha256', typeof secret === 'string' ? secret : keyOf(secret));
  }
}

function keyOf(secret: ArrayBuffer | ArrayBufferView): KeyObject {
  const known = keys.get(secret);
  if (known) return known;
  const key = createSecretKey(bytesOf(secret));
  keys.set(secret, key);
  return key;
}

function bytesOf(data: ArrayBuffer | ArrayBufferView): Uint8Array {
  return ArrayBuffer.isView(data)
    ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    : new Uint8Array(data);
}
