import { InvalidArgumentError, Option } from 'commander';
import type { ProfileName } from '@leasehold/example-helpdesk';

const PROFILES: Readonly<Record<string, ProfileName>> = { sqlite: 'sqlite', local: 'sqlite', aws: 'aws' };

/** `--profile`. */
export function profileOption(): Option {
  return new Option(
    '--profile <name>',
    'the stores: sqlite (also called local; default), or aws (SQS and DynamoDB)',
  ).argParser((value: string): ProfileName => {
    const { [value]: profile } = PROFILES;
    if (!profile) throw new InvalidArgumentError(`Write one of ${Object.keys(PROFILES).join(', ')}.`);
    return profile;
  });
}
