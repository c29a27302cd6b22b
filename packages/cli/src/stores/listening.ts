import type { LedgerDriver } from '@leasehold/core';

/** The same driver; `hear` is told every error that a call rejects with, and `undefined` when the next one succeeds. */
export function listening(driver: LedgerDriver, hear: (error: unknown) => void): LedgerDriver {
  const heard = async <Result>(call: Promise<Result>): Promise<Result> => {
    try {
      const result = await call;
      hear(undefined);
      return result;
    } catch (error) {
      hear(error);
      throw error;
    }
  };
  const open = driver.open?.bind(driver);
  return {
    specVersion: driver.specVersion,
    name: driver.name,
    get capabilities() {
      return driver.capabilities;
    },
    ...(open && { open: (signal: AbortSignal) => heard(open(signal)) }),
    put: (next, lease, expect, signal) => heard(driver.put(next, lease, expect, signal)),
    get: (taskId, signal) => heard(driver.get(taskId, signal)),
    list: (query, signal) => heard(driver.list(query, signal)),
    classify: (error) => driver.classify(error),
    close: () => driver.close(),
  };
}
