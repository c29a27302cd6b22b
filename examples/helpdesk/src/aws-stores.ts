import { badOption } from '@leasehold/core';
import type { AwsPlace, Stores } from './place.ts';

/** Queue and ledger on AWS. */
export async function openAws({ queueUrl, table, region, madeUp, ...place }: AwsPlace): Promise<Stores> {
  const [{ sqsBroker }, { dynamoDbLedger }] = await loadPackages(() =>
    Promise.all([import('@leasehold/sqs'), import('@leasehold/dynamodb')]),
  );
  const connection = { ...(region !== undefined && { region }), ...(madeUp && { credentials: madeUp }) };
  const at = (endpoint: string | undefined): { readonly endpoint?: string } =>
    endpoint === undefined ? {} : { endpoint };
  return {
    driver: sqsBroker({ queueUrl, ...connection, ...at(place.sqsEndpoint) }),
    ledger: dynamoDbLedger({ table, ...connection, ...at(place.dynamodbEndpoint) }),
  };
}

/** What the profile needs beside the demo's own dependencies. */
const PACKAGES = '@leasehold/sqs @leasehold/dynamodb @leasehold/emulators @aws-sdk/client-sqs @aws-sdk/client-dynamodb';

/**
 * Loads packages that are not everybody's.
 *
 * @throws LeaseholdError `bad-option`, naming them, when one is not installed.
 */
export async function loadPackages<Loaded>(load: () => Promise<Loaded>): Promise<Loaded> {
  try {
    return await load();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw badOption('profile', 'aws', `its packages are not installed: npm install ${PACKAGES}`);
  }
}
