import { isLeaseholdError, ownErrorCode, type BrokerErrorCode } from '@leasehold/core';

const BUSY = 5;
const LOCKED = 6;
const CANTOPEN = 14;
const NOTADB = 26;

// https://sqlite.org/rescode.html; the low byte of an extended code is its primary code.
const CODES: Readonly<Record<number, BrokerErrorCode>> = {
  3: 'denied', // PERM
  5: 'unavailable', // BUSY
  6: 'unavailable', // LOCKED
  7: 'unavailable', // NOMEM
  8: 'denied', // READONLY
  10: 'unavailable', // IOERR
  11: 'invalid', // CORRUPT
  13: 'unavailable', // FULL
  14: 'unavailable', // CANTOPEN
  15: 'unavailable', // PROTOCOL
  18: 'invalid', // TOOBIG
  19: 'invalid', // CONSTRAINT
  20: 'invalid', // MISMATCH
  23: 'denied', // AUTH
  26: 'invalid', // NOTADB
};

function primaryCode(error: unknown): number | undefined {
  if (typeof error !== 'object' || error === null || !('errcode' in error)) return undefined;
  return typeof error.errcode === 'number' ? error.errcode & 0xff : undefined;
}

/** True when another connection holds the lock: waiting helps. */
export function isBusy(error: unknown): boolean {
  const code = primaryCode(error);
  return code === BUSY || code === LOCKED;
}

/** True when the path cannot be opened: no directory, no permission, a directory in its place. */
export function cannotOpen(error: unknown): boolean {
  return primaryCode(error) === CANTOPEN;
}

/** True when the file is something else than an SQLite database. */
export function isNotADatabase(error: unknown): boolean {
  return primaryCode(error) === NOTADB;
}

/** What an error of `node:sqlite`, or one of ours, comes down to. Pure; never throws. */
export function classifySqliteError(error: unknown): BrokerErrorCode {
  if (isLeaseholdError(error)) return ownErrorCode(error);
  const code = primaryCode(error);
  return code === undefined ? 'unknown' : (CODES[code] ?? 'unknown');
}
