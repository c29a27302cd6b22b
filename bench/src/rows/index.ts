import type { Row } from '../row.ts';
import { awsPowertools, awsRaw, sqsConsumer, sqsRaw } from './aws.ts';
import { calls } from './calls.ts';
import { growth } from './growth.ts';
import { leases } from './leases.ts';
import { sqliteRaw } from './sqlite-raw.ts';

/** All rows, in the order of the table. */
export const ROWS: readonly Row[] = [sqsRaw, sqsConsumer, awsRaw, awsPowertools, sqliteRaw, calls, leases, growth];
