import type { DeadLetter, DeadLetterPage } from '@leasehold/core';

/** All letters of a dead-letter queue, a page at a time. */
export async function readAll(page: (cursor?: string) => Promise<DeadLetterPage>): Promise<readonly DeadLetter[]> {
  const letters: DeadLetter[] = [];
  let cursor: string | undefined;
  do {
    const next = await page(cursor);
    letters.push(...next.letters);
    cursor = next.cursor;
  } while (cursor !== undefined);
  return letters;
}
