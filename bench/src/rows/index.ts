import type { Row } from '../row.ts';
import { growth } from './growth.ts';
import { leases } from './leases.ts';
import { sqliteRaw } from './sqlite-raw.ts';

/** All rows, in the order of the table. */
export const ROWS: readonly Row[] = [sqliteRaw, leases, growth];
