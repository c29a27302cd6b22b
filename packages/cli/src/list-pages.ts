import type { LedgerPage, LedgerQuery, TaskRecord } from '@leasehold/core';

/** Reads on until there are as many as asked for, or no more: a store that looks at so many records at a time may answer with fewer, or none. */
export async function listPages(
  client: { list(query: LedgerQuery): Promise<LedgerPage> },
  query: LedgerQuery,
): Promise<LedgerPage> {
  const records: TaskRecord[] = [];
  let { cursor } = query;
  for (;;) {
    const limit = query.limit - records.length;
    const page = await client.list({ ...query, limit, ...(cursor !== undefined && { cursor }) });
    records.push(...page.records);
    ({ cursor } = page);
    if (cursor === undefined) return { records, now: page.now };
    if (records.length >= query.limit) return { records, now: page.now, cursor };
  }
}
