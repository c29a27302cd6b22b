// Waits for a message that never comes; then lets go of everything in the way its argument says, and has to end by itself.
import { sqliteBroker, sqliteGuard, sqliteLedger } from '@leasehold/sqlite';
import { never } from './machine.ts';

const [file = '', way] = process.argv.slice(2);
const broker = sqliteBroker({ file });
const [ledger, guard] = [sqliteLedger({ file }), sqliteGuard({ file })];
await Promise.all([ledger.get('task', never()), guard.look({ scope: 's', token: 1, key: 'k' }, never())]);
const stop = new AbortController();
const waiting = broker
  .receive({ max: 1, leaseMs: 60_000, waitMs: way === 'waited' ? 50 : 3_600_000 }, stop.signal)
  .catch(() => 'refused');
if (way === 'closed') setTimeout(() => void Promise.all([broker.close(), ledger.close(), guard.close()]), 50);
if (way === 'aborted') setTimeout(() => stop.abort(new Error('stop')), 50);
process.stdout.write(`${JSON.stringify(await waiting)}\n`);
