// Holds the write lock of a database for some time, as a slow process would.
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';

const [file = '', heldMs = '1000'] = process.argv.slice(2);
const db = new DatabaseSync(file, { timeout: 5_000 });
db.exec('BEGIN IMMEDIATE');
process.stdout.write('locked\n');
await pause(Number(heldMs));
db.exec('COMMIT');
db.close();
