import type { Side, SideOptions } from '../side.ts';

/** Every side by name; each loads what it needs and nothing else. */
export const SIDES: Readonly<Record<string, (options: SideOptions) => Promise<Side>>> = {
  'sqs-ours': async (options) => (await import('./sqs-ours.ts')).openSqsOurs(options),
  'sqs-raw': async (options) => (await import('./sqs-raw.ts')).openSqsRaw(options),
  'consumer-each': async (options) => (await import('./sqs-consumer.ts')).openConsumerEach(options),
  'consumer-batch': async (options) => (await import('./sqs-consumer.ts')).openConsumerBatch(options),
  'aws-ours': async (options) => (await import('./aws-ours.ts')).openAwsOurs(options),
  'aws-raw': async (options) => (await import('./aws-raw.ts')).openAwsRaw(options),
  'aws-powertools': async (options) => (await import('./aws-powertools.ts')).openAwsPowertools(options),
  'sqlite-ours': async (options) => (await import('./sqlite-ours.ts')).openSqliteOurs(options),
  'sqlite-raw': async (options) => (await import('./sqlite-raw.ts')).openSqliteRaw(options),
  'held-leases': async (options) => (await import('./held-leases.ts')).openHeldLeases(options),
  'sqlite-claims': async (options) => (await import('./sqlite-claims.ts')).openSqliteClaims(options),
};
