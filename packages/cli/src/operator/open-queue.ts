import { createLeaseBroker, type LeaseBroker, type OperatorParts } from '@leasehold/core';
import { sqliteBroker } from '@leasehold/sqlite';
import { CliFailure } from '../failure.ts';
import { refusedAs, withLedger, type OpenLedger, type StoreOptions } from '../open-ledger.ts';
import { parseAddress } from '../stores/address.ts';
import { awsTrouble } from '../stores/aws-trouble.ts';
import { QUEUE_KINDS, type CountingBroker } from '../stores/queue-kinds.ts';
import { queueName } from '../stores/sqlite-file.ts';

/** A ledger and its queue. */
export interface OpenQueue extends OpenLedger {
  readonly driver: CountingBroker;
  readonly broker: LeaseBroker;
  /** For sweep and redrive. */
  readonly parts: OperatorParts;
  /** Whether somebody said which queue; else it is the only one of a file that has messages, and what is parked may be of another. */
  readonly named: boolean;
}

/** A queue, and how it was named, for messages. */
export interface SaidQueue {
  readonly driver: CountingBroker;
  readonly said: string;
  readonly named: boolean;
}

const OPEN_TIMEOUT_MS = 10_000;

/**
 * Opens the ledger, and the queue of `--queue` or the environment, for the time of `work`. With `toSend` a parked message is going to be
 * sent: the queue has to be named.
 */
export async function withQueue<Result>(
  options: StoreOptions,
  work: (open: OpenQueue) => Promise<Result>,
  toSend = false,
): Promise<Result> {
  return withLedger(options, (open) => withQueueOf(options, open, work, toSend));
}

/** The same beside a ledger that is open. */
export async function withQueueOf<Result>(
  options: StoreOptions,
  open: OpenLedger,
  work: (open: OpenQueue) => Promise<Result>,
  toSend = false,
): Promise<Result> {
  const queue = await openQueue(options, open.address, toSend);
  const { driver, named } = queue;
  const broker = createLeaseBroker({ driver, ledger: open.ledger });
  try {
    // What is wrong with the queue shows before anything is done.
    await answering(queue, async () => driver.open?.(AbortSignal.timeout(OPEN_TIMEOUT_MS)));
    return await work({ ...open, driver, broker, named, parts: { ledger: open.ledger, driver, broker } });
  } finally {
    await broker.drain();
    await driver.close();
  }
}

/** A queue that does not answer is named, with what to check. A file's own words say both. */
export async function answering<Result>({ driver, said }: SaidQueue, work: () => Promise<Result>): Promise<Result> {
  return refusedAs(said, async () => {
    try {
      return await work();
    } catch (cause) {
      const timeout = cause instanceof Error && cause.name === 'TimeoutError';
      if (driver.name === 'sqlite' || awsTrouble(cause, said, 'address')) throw cause;
      if (!timeout && driver.classify(cause) !== 'unavailable') throw cause;
      const { code, name } = cause as NodeJS.ErrnoException;
      const message = `${said} does not answer (${code ?? name}): check its endpoint and the network.`;
      throw new CliFailure(1, message, { cause });
    }
  });
}

/** The queue that was named: by an address of its own, or by its name in the ledger's file. */
export async function openQueue(
  { queue }: Pick<StoreOptions, 'queue'>,
  ledger: OpenLedger['address'],
  toSend = false,
): Promise<SaidQueue> {
  const { LEASEHOLD_QUEUE } = process.env;
  const [from, text] = queue === undefined ? ['LEASEHOLD_QUEUE', LEASEHOLD_QUEUE || undefined] : ['--queue', queue];
  if (text?.includes(':')) {
    const address = parseAddress(from, text, QUEUE_KINDS);
    const { said, kind, options } = address;
    const named = kind !== 'sqlite' || options['queue'] !== undefined;
    return { driver: await refusedAs(said, () => QUEUE_KINDS[kind].open(address, toSend)), said, named };
  }
  if (ledger.kind === 'sqlite') {
    const driver = sqliteBroker({ file: ledger.place, queue: queueName(ledger.place, text, toSend) });
    return { driver, said: ledger.said, named: text !== undefined };
  }
  const forms = Object.values(QUEUE_KINDS).map(({ form }) => form);
  throw new CliFailure(
    2,
    text === undefined
      ? `--queue is missing, and ${ledger.said} has none of its own: write ${forms.join(' or ')}, here or in LEASEHOLD_QUEUE.`
      : `${from} ${text} is the name of a queue in an SQLite file, and the ledger is another: write ${forms.join(' or ')}.`,
  );
}
