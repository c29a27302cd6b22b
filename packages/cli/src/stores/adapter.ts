import type * as DynamoDb from '@leasehold/dynamodb';
import type * as Sqs from '@leasehold/sqs';
import { CliFailure } from '../failure.ts';

/**
 * Loads the package of an adapter, which is not everybody's: the command starts without it.
 *
 * @throws CliFailure with what to install, when it is not there.
 */
export async function loadAdapter<Module>(
  wanted: string,
  packages: string,
  load: () => Promise<Module>,
): Promise<Module> {
  try {
    return await load();
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw cause;
    throw new CliFailure(
      2,
      `${wanted} needs packages that are not installed beside @leasehold/cli: npm install ${packages}`,
      { cause },
    );
  }
}

/** The package of the DynamoDB ledger. */
export function loadDynamoDb(wanted: string): Promise<typeof DynamoDb> {
  return loadAdapter(wanted, '@leasehold/dynamodb @aws-sdk/client-dynamodb', () => import('@leasehold/dynamodb'));
}

/** The package of the SQS broker. */
export function loadSqs(wanted: string): Promise<typeof Sqs> {
  return loadAdapter(wanted, '@leasehold/sqs @aws-sdk/client-sqs', () => import('@leasehold/sqs'));
}
