import { expect, test } from 'vitest';
import { openOnce, virtualClock } from '@leasehold/core';

test('a driver is opened once for all who wait, and again after a failure', async () => {
  let asked = 0;
  let fails = true;
  const open = openOnce(virtualClock(), {
    name: 'fake',
    async open() {
      asked++;
      if (fails) throw new Error('not yet');
    },
  });
  await expect(open()).rejects.toThrow('not yet');
  fails = false;
  await Promise.all([open(), open(), open()]);
  expect(asked).toBe(2);
});
