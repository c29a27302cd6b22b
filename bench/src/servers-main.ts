import { startDynamoDb, startSqs, type Emulator, type SqsEmulator } from '@leasehold/emulators';
import { answerParent } from './child-answers.ts';
import type { Endpoint, Servers } from './side.ts';

let sqs: SqsEmulator | undefined;
let dynamodb: Emulator | undefined;

const placeOf = ({ endpoint, region, credentials }: Emulator): Endpoint => ({ endpoint, region, credentials });

answerParent({
  async start(): Promise<Servers> {
    sqs = await startSqs();
    dynamodb = await startDynamoDb();
    return { sqs: placeOf(sqs), dynamodb: placeOf(dynamodb) };
  },
  async queue(name: string): Promise<string> {
    if (!sqs) throw new Error('the servers are not started');
    return (await sqs.createQueue(name, { visibilitySeconds: 90 })).url;
  },
  /** Milliseconds of CPU that this process has used. */
  cpu(): number {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1_000;
  },
  async close() {
    await Promise.all([sqs?.close(), dynamodb?.close()]);
  },
});
