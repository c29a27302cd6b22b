import type { IamRole } from '@leasehold/dynamodb';
import { EXIT } from '../failure.ts';
import { loadDynamoDb } from '../stores/adapter.ts';
import { given, tableOptions, type WrittenTable } from '../stores/table-options.ts';
import { queueArn, sqsStatements, type QueueArn } from './sqs-statements.ts';

interface PolicyOptions extends WrittenTable {
  readonly role: IamRole;
  readonly table: string;
  readonly queue?: string;
  readonly deadLetterQueue?: string;
  readonly region?: string;
  readonly account?: string;
  readonly partition?: string;
  readonly mayCancel?: boolean;
}

/** `leasehold aws policy` */
export async function policyCommand(options: PolicyOptions): Promise<number> {
  const { role, table } = options;
  const queue = options.queue === undefined ? undefined : queueArn('--queue', options.queue);
  const deadLetters =
    options.deadLetterQueue === undefined ? undefined : queueArn('--dead-letter-queue', options.deadLetterQueue);
  const { iamPolicy } = await loadDynamoDb('aws policy');
  const { Version, Statement } = iamPolicy(role, {
    table,
    ...tableOptions(options),
    ...place(options, queue),
    ...(options.mayCancel && { mayCancel: true }),
  });
  const { statements, notes } = sqsStatements(role, queue, deadLetters);
  process.stdout.write(`${JSON.stringify({ Version, Statement: [...Statement, ...statements] }, null, 2)}\n`);
  for (const note of notes) process.stderr.write(`note: ${note}\n`);
  return EXIT.ok;
}

/** The table is where the queue is, unless told otherwise. */
function place(
  { region, account, partition }: PolicyOptions,
  queue: QueueArn | undefined,
): { readonly region?: string; readonly account?: string; readonly awsPartition?: string } {
  return {
    ...given('region', region ?? queue?.region),
    ...given('account', account ?? queue?.account),
    ...given('awsPartition', partition ?? queue?.partition),
  };
}
