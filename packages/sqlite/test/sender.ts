// Sends one message, as another process would, and ends by itself.
import { sqliteBroker } from '@leasehold/sqlite';
import { never } from './machine.ts';

const [file = '', text = 'hello', delayMs = '0'] = process.argv.slice(2);
const broker = sqliteBroker({ file });
await broker.send([{ body: new TextEncoder().encode(text), attributes: {}, delayMs: Number(delayMs) }], never());
process.stdout.write('sent\n');
await broker.close();
