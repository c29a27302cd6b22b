import type { MemoryGuard } from '@leasehold/core/memory';
import type { TransactionalGuardStore } from '@leasehold/guard';
import { randomUUID } from 'node:crypto';

/** The receiver's table: what was written, in order. */
export interface Table {
  rows: string[];
}

/** A guard store and a table that commit together: what `transact` of a SQL store does, on a store in memory. */
export interface Books extends TransactionalGuardStore<Table> {
  readonly table: Table;
}

export function ledgerOf(store: MemoryGuard): Books {
  const table: Table = { rows: [] };
  return {
    ...store,
    table,
    async transact(ask, apply, signal) {
      const held = { ...ask, hold: randomUUID(), holdMs: 1 };
      const verdict = await store.begin(held, signal);
      if (typeof verdict === 'string' || !('new' in verdict)) return verdict;
      const before = [...table.rows];
      try {
        const done = apply(table);
        await store.finish(held, done, signal);
        return { done };
      } catch (error) {
        table.rows = before;
        await store.finish(held, 'free', signal);
        throw error;
      }
    },
  };
}
