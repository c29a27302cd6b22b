// The receiver in a process of its own. Started, killed, stopped and started again by a run.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { onGuardEvent, REPLAY_HEADER } from '@leasehold/guard';
import { Seeded } from '../simulation/seeded.ts';
import { lingering, startOptions, tellParent, watchClock, type ReceiverStart } from './child.ts';
import { driversOf } from './drivers.ts';
import { answer, toRequest } from './http-adapter.ts';
import { openJournal } from './journal.ts';
import { openReceiver } from './receiver.ts';
import { hash } from './tasks.ts';

/** The share of answers that get lost after the effect was committed. */
const LOST_ANSWERS = 0.04;

async function main(): Promise<void> {
  const start = startOptions() as ReceiverStart;
  const say = openJournal(start.journals, start.who);
  const chance = new Seeded(start.seed ^ hash(start.who));
  watchClock(start, say);
  onGuardEvent((event) => say({ kind: 'guard', event }));
  const receiver = openReceiver({
    store: driversOf(start.connection).guard(),
    charges: start.charges,
    chance,
    say,
    ...(start.plant && { plant: start.plant }),
  });
  const lingerMs = lingering();
  const handle = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const request = await toRequest(incoming);
    if (incoming.url === '/rows') return answer(outgoing, Response.json(receiver.rows()));
    const worker = request.headers.get('x-worker') ?? '';
    const response = await receiver.handle(request);
    if (response.status === 201 && !response.headers.has(REPLAY_HEADER)) {
      // Committed, and nobody knows yet: the moment in which callers die and answers get lost.
      tellParent({ kind: 'stored', worker });
      await pause(chance.between(0, 60) + lingerMs(worker));
      if (chance.chance(LOST_ANSWERS)) outgoing.destroy();
    }
    await answer(outgoing, response);
  };
  const server = createServer((incoming, outgoing) => {
    handle(incoming, outgoing).catch((error: unknown) => {
      say({ kind: 'warning', text: `the request could not be answered: ${String(error)}` });
      outgoing.destroy();
    });
  });
  process.on('SIGTERM', () => {
    server.close(() => {
      void receiver.close().then(() => process.disconnect());
    });
    server.closeIdleConnections();
    // Those that keep asking find nobody; what is under way is answered.
    setInterval(() => server.closeIdleConnections(), 50).unref();
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(start.port, '127.0.0.1', resolve);
  });
  say({ kind: 'ready' });
  tellParent({ kind: 'ready' });
}

void main();
