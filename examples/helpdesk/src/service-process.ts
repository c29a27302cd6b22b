// The ticket service in a process of its own. Started by the demo.
import { onGuardEvent } from '@leasehold/guard';
import { startOptions, tellParent, type LetGo, type ServiceOptions } from './child-messages.ts';
import { createFaultBoard } from './fault-board.ts';
import { startTicketService } from './ticket-service.ts';

async function main(): Promise<void> {
  const { file, faults: plan } = startOptions() as ServiceOptions;
  const faults = createFaultBoard(plan, (caught) => void tellParent(caught));
  onGuardEvent((event) => void tellParent({ kind: 'guard', event }));
  const service = await startTicketService({ file, faults, answered: (answer) => void tellParent(answer) });
  process.on('message', (message) => faults.letGo(message as LetGo));
  const stop = (): void => {
    void service.close().then(() => process.exit(0));
  };
  process.on('SIGTERM', stop);
  // Ctrl-C reaches the whole group; the demo says when the service has to end.
  process.on('SIGINT', () => undefined);
  process.on('disconnect', () => process.exit(0));
  await tellParent({ kind: 'listening', url: service.url });
}

void main();
