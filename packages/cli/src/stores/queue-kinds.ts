import type { BrokerDriver } from '@leasehold/core';
import { sqliteBroker } from '@leasehold/sqlite';
import { loadSqs } from './adapter.ts';
import type { Address, AddressForm } from './address.ts';
import { checkFile, queueName } from './sqlite-file.ts';
import { given } from './table-options.ts';

/** How many messages a queue has, by what keeps them. */
interface QueueDepth {
  readonly visible: number;
  readonly inFlight: number;
  readonly delayed: number;
  readonly blocked: number;
  readonly deadLetters: number;
}

/** A broker that can tell how many messages it has. */
export type CountingBroker = BrokerDriver & { depth(signal: AbortSignal): Promise<QueueDepth> };

/** A kind of queue: how it is written and opened. */
export interface QueueKind extends AddressForm {
  /** With `toSend` a file is not asked which queue is meant. */
  open(address: Address, toSend?: boolean): Promise<CountingBroker>;
}

/** The queues that the command knows, by the word their address begins with. */
export const QUEUE_KINDS: Readonly<Record<'sqlite' | 'sqs', QueueKind>> = {
  sqlite: {
    form: 'sqlite:FILE?queue=NAME',
    options: ['queue'],
    async open({ place, options, said }, toSend) {
      checkFile(place, said);
      return sqliteBroker({ file: place, queue: queueName(place, options['queue'], toSend) });
    },
  },
  sqs: {
    form: 'sqs:QUEUE_URL?region=REGION&endpoint=URL',
    options: ['region', 'endpoint'],
    async open({ place, options, said }) {
      const { sqsBroker } = await loadSqs(said);
      const { region, endpoint } = options;
      return sqsBroker({ queueUrl: place, ...given('region', region), ...given('endpoint', endpoint) });
    },
  },
};
