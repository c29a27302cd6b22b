import { isLeaseholdError } from '@leasehold/core';
import { CliFailure } from '../failure.ts';

/** How options are written where the trouble is: in an address, or as options of a command. */
export type Writing = 'address' | 'options';

// The errors of https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/CommonErrors.html and of the SDK's own chain.
const NONE_FOUND: readonly string[] = ['CredentialsProviderError', 'TokenProviderError'];
const EXPIRED: readonly string[] = ['ExpiredToken', 'ExpiredTokenException'];
const UNKNOWN: readonly string[] = [
  'InvalidClientTokenId',
  'InvalidSignatureException',
  'SignatureDoesNotMatch',
  'UnrecognizedClientException',
];
/** Where the SDK looks: https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html */
const SOURCES =
  'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN, where they are temporary), the profile of AWS_PROFILE in ~/.aws, or the role of the container or machine';
/** How the driver words the hint of a key that does not fit. */
const KEY_HINT = /write (keys|index): \{(?: name: '([^']+)',)? partition: '([^']+)'(?:, sort: '([^']+)')? \}\.$/;
/** How it begins to speak of an index that is not there. */
const NO_INDEX = /^table .+? has no index [^;]+(?=;)/;

/** An error that is about the access to AWS, or about the key of a table, in words for a command line; nothing for every other. */
export function awsTrouble(error: unknown, said: string, writing: Writing): CliFailure | undefined {
  for (let at = error; at instanceof Error; at = at.cause) {
    if (isLeaseholdError(at) && at.code === 'bad-option') {
      const option = optionTrouble(at.field, at.message, said, writing);
      if (option !== undefined) return new CliFailure(2, `${said}: ${option}`, { cause: error });
    }
    const credentials = credentialsTrouble(at);
    if (credentials !== undefined) return new CliFailure(1, `${said}: ${credentials}`, { cause: error });
  }
  return undefined;
}

/** What is wrong with the credentials, and the remedy, if that is what an error of the SDK is about. */
function credentialsTrouble({ name, message }: Error): string | undefined {
  // The chain has no other name for a session of a profile that is over.
  if (EXPIRED.includes(name) || (NONE_FOUND.includes(name) && /expired/i.test(message)))
    return `the AWS credentials have expired (${name}: ${message}); get new ones where the SDK looks: ${SOURCES}.`;
  if (NONE_FOUND.includes(name))
    return `no AWS credentials were found (${name}: ${message}); the SDK looks at ${SOURCES}. A local server takes any.`;
  if (UNKNOWN.includes(name))
    return `AWS does not accept the credentials (${name}: ${message}); check what the SDK finds first: ${SOURCES}.`;
  return undefined;
}

function optionTrouble(field: string | undefined, message: string, said: string, writing: Writing): string | undefined {
  const mark = said.includes('?') ? '&' : '?';
  if (field === 'region' && message.startsWith('region is undefined')) {
    const add = writing === 'options' ? 'give --region' : `add ${mark}region=eu-central-1 to it`;
    return `no region was given, nor found; ${add}, or set AWS_REGION.`;
  }
  const missing = NO_INDEX.exec(message)?.[0];
  if (missing !== undefined) {
    const [index, none] =
      writing === 'options' ? ['--index NAME', '--no-index'] : [`${mark}index=NAME`, `${mark}index=none`];
    return `${missing}; name the one that the workers name with ${index}, its keys too if they are other ones, or add it as "leasehold aws table" prints it. ${none} is for tables where no worker names one.`;
  }
  const [, of, name, partition, sort] = KEY_HINT.exec(message) ?? [];
  if (of === undefined) return undefined;
  const parts =
    of === 'keys'
      ? { 'partition-key': partition, 'sort-key': sort }
      : { index: name, 'index-partition': partition, 'index-sort': sort };
  const alone = of === 'keys' && sort === undefined ? ', and no sort key' : '';
  return message.replace(KEY_HINT, () => `write ${written(parts, mark, writing)}${alone}.`);
}

function written(parts: Readonly<Record<string, string | undefined>>, mark: string, writing: Writing): string {
  const given = Object.entries(parts).filter((part): part is [string, string] => part[1] !== undefined);
  return writing === 'options'
    ? given.map(([name, value]) => `--${name} ${value}`).join(' ')
    : mark + given.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&');
}
