import { createLeaseBroker } from '@leasehold/core';
import { memoryBroker, memoryLedger } from '@leasehold/core/memory';
import { createWorker, defineTask } from '@leasehold/worker';

export const charge = defineTask({ type: 'charge', run: () => 1 });

const broker = createLeaseBroker({ driver: memoryBroker(), ledger: memoryLedger() });
await createWorker({ broker, tasks: [charge] }).run();
