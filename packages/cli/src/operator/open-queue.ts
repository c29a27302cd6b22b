import { createLeaseBroker, type LeaseBroker, type OperatorParts } from '@leasehold/core';
import { sqliteBroker } from '@leasehold/sqlite';
import { CliFailure } from '../failure.ts';
import { refusedAs, withLedger, type OpenLedger, type StoreOptions } from '../open-ledger.ts';
import { parseAddress } from '../stores/address.ts';
import { QUEUE_KINDS, type CountingBroker } from '../stores/queue-kinds.ts';
import { queueName } from '../stores/sqlite-file.ts';

/** A ledger and its queue. */
export interface OpenQueue extends OpenLedger {
  readonly driver: CountingBroker;
  readonly broker: LeaseBroker;
  /** For sweep and redrive. */
  readonly parts: OperatorParts;
}

/** A queue, and how it was named, for messages. */
export interface SaidQueue {
  readonly driver: CountingBroker;
  readonly said: string;
}

const OPEN_TIMEOUT_MS = 10_000;

/** Opens the ledger, and the queue of `--queue` or the environment, for the time of `work`. */
export async function withQueue<Result>(
  options: StoreOptions,
  work: (open: OpenQueue) => Promise<Result>,
): Promise<Result> {
  return withLedger(options, async (open) => {
    const { driver, said } = await openQueue(options, open.address);
    const broker = createLeaseBroker({ driver, ledger: open.ledger });
    try {
      // What is wrong with the queue shows before anything is done.
      await refusedAs(said, async () => driver.open?.(AbortSignal.timeout(OPEN_TIMEOUT_MS)));
      return await work({ ...open, driver, broker, parts: { ledger: open.ledger, driver, broker } });
    } finally {
      await broker.drain();
      await driver.close();
    }
  });
}

/** The queue that was named: by an address of its own, or by its name in the ledger's file. */
export async function openQueue(
  { queue }: Pick<StoreOptions, 'queue'>,
  ledger: OpenLedger['address'],
): Promise<SaidQueue> {
  const { LEASEHOLD_QUEUE } = process.env;
  const [from, text] = queue === undefined ? ['LEASEHOLD_QUEUE', LEASEHOLD_QUEUE || undefined] : ['--queue', queue];
  if (text?.includes(':')) {
    const address = parseAddress(from, text, QUEUE_KINDS);
    const { said } = address;
    return { driver: await refusedAs(said, () => QUEUE_KINDS[address.kind].open(address)), said };
  }
  if (ledger.kind === 'sqlite') {
    const driver = sqliteBroker({ file: ledger.place, queue: queueName(ledger.place, text) });
    return { driver, said: ledger.said };
  }
  const forms = Object.values(QUEUE_KINDS).map(({ form }) => form);
  throw new CliFailure(
    2,
    text === undefined
      ? `--queue is missing, and ${ledger.said} has none of its own: write ${forms.join(' or ')}, here or in LEASEHOLD_QUEUE.`
      : `${from} ${text} is the name of a queue in an SQLite file, and the ledger is another: write ${forms.join(' or ')}.`,
  );
}
