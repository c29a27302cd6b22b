import { monitorEventLoopDelay } from 'node:perf_hooks';
import { expect, test } from 'vitest';
import { sqliteBroker, sqliteLedger } from '@leasehold/sqlite';
import { startChild } from './child.ts';
import { machine, never } from './machine.ts';
import { claimed } from './stored-record.ts';

/** Of the wait that the event loop may stand still in one piece. */
const SHARE = 0.2;

// A call that waited inside SQLite would stop the event loop for as long as the lock is held. A busy machine stops it too, for less and not every time:
// one quiet round out of three shows that the gaps were not ours.
test('while another process has the write lock for a second, calls wait for it and the event loop turns', async () => {
  const { file, dispose } = machine();
  const [broker, ledger] = [sqliteBroker({ file }), sqliteLedger({ file })];
  await ledger.put(claimed('before'), { ms: 60_000 }, { version: 0 }, never());
  let smallest = 1;
  for (let round = 0; round < 3 && smallest >= SHARE; round++) {
    const holder = startChild(new URL('./lock-holder.ts', import.meta.url), file, '1000');
    await holder.said('locked');
    const gaps = monitorEventLoopDelay({ resolution: 1 });
    gaps.enable();
    const start = performance.now();
    // Reads do not wait at all.
    expect((await ledger.get('before', never())).record?.taskId).toBe('before');
    const readMs = performance.now() - start;
    const [put, sent] = await Promise.all([
      ledger.put(claimed(`task ${round}`), { ms: 60_000 }, { version: 0 }, never()),
      broker.send([{ body: new Uint8Array([1]), attributes: {} }], never()),
    ]);
    const waitedMs = performance.now() - start;
    gaps.disable();
    expect(put.ok).toBe(true);
    expect(sent[0]).toHaveProperty('messageId');
    expect(waitedMs).toBeGreaterThan(500);
    expect(readMs).toBeLessThan(waitedMs / 2);
    smallest = Math.min(smallest, gaps.max / 1e6 / waitedMs);
    await holder.ended;
  }
  expect(smallest).toBeLessThan(SHARE);
  await Promise.all([broker.close(), ledger.close()]);
  dispose();
});
