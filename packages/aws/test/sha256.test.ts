import { createHash, createHmac } from 'node:crypto';
import { expect, test } from 'vitest';
import { Sha256 } from '../src/sha256.ts';

const BYTES = Uint8Array.from([0, 255, 128, 7]);
/** A view into the middle of a larger buffer. */
const VIEW = new Uint8Array(Uint8Array.from([9, 9, 0, 255, 128, 7, 9]).buffer, 2, 4);

test('the digest of text and bytes in parts, from the start after a reset', async () => {
  const ours = new Sha256();
  for (let round = 0; round < 2; round++) {
    ours.update('naïve ');
    ours.update(VIEW);
    ours.update(BYTES.buffer);
    const theirs = createHash('sha256').update('naïve ').update(BYTES).update(BYTES).digest();
    expect(Buffer.from(await ours.digest())).toEqual(theirs);
    ours.reset();
  }
});

test.each([
  ['text', 'sécret', Buffer.from('sécret')],
  ['bytes', VIEW, BYTES],
  ['a buffer', BYTES.buffer, BYTES],
  ['nothing at all', '', Buffer.alloc(0)],
])('the HMAC under %s, from the start after a reset', async (_kind, secret, bytes) => {
  const ours = new Sha256(secret);
  for (let round = 0; round < 2; round++) {
    ours.update('signed');
    expect(Buffer.from(await ours.digest())).toEqual(createHmac('sha256', bytes).update('signed').digest());
    ours.reset();
  }
});
