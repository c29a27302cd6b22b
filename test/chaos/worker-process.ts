// A worker in a process of its own. Started, killed, stopped and replaced by a run.
import { createLeaseBroker, subscribe } from '@leasehold/core';
import { createWorker } from '@leasehold/worker';
import { Seeded } from '../simulation/seeded.ts';
import { lingering, startOptions, tellParent, watchClock, type WorkerStart } from './child.ts';
import { deskAt } from './desk.ts';
import { driversOf } from './drivers.ts';
import { openJournal } from './journal.ts';
import { earlyAck, lawlessLedger } from './plants.ts';
import { chaosTasks, hash } from './tasks.ts';
import { unreliable } from './unreliable.ts';
import { watchedLedger } from './watched-ledger.ts';

// More than is asked for needs: a worker whose network is cut is full at once.
const CONCURRENCY = 12;
const CALLS = ['send', 'receive', 'extend', 'complete', 'release', 'reject'] as const;

async function main(): Promise<void> {
  const { who, journals, connection, seed, plant, receiverUrl, leaseMs, drainMs, ...rest } =
    startOptions() as WorkerStart;
  const say = openJournal(journals, who);
  watchClock(rest, say);
  subscribe((event) => {
    if (event.name !== 'stage_entered' && !event.name.startsWith('tool_request')) say({ kind: 'event', event });
  });
  const drivers = driversOf(connection);
  const chance = new Seeded(seed ^ hash(`${who} calls`));
  const driver = unreliable(drivers.broker(), CALLS, chance);
  const ledger = unreliable(drivers.ledger(), ['put', 'get'], chance);
  const broker = createLeaseBroker({
    driver: plant === 'early-ack' ? earlyAck(driver) : driver,
    ledger: watchedLedger(plant === 'lawless-ledger' ? lawlessLedger(ledger) : ledger, say),
  });
  const lingerMs = lingering();
  const desk = deskAt({
    url: receiverUrl,
    who,
    seed: seed ^ hash(who),
    say,
    calling() {
      tellParent({ kind: 'calling', worker: who });
      return lingerMs(who);
    },
  });
  const worker = createWorker({
    broker,
    tasks: chaosTasks({ desk, leaseMs, seed }),
    concurrency: CONCURRENCY,
    poll: '2s',
    drain: drainMs,
    abortGrace: '2s',
    service: who,
    // One that was stopped has some warnings when it goes on.
    logger: { warn: (_fields, text) => say({ kind: 'warning', text }) },
  });
  const running = worker.run();
  say({ kind: 'ready' });
  tellParent({ kind: 'ready' });
  await running;
  await broker.close();
  say({ kind: 'finished' });
  // Nothing else may keep it alive: it has to end by itself.
  process.disconnect();
}

void main();
