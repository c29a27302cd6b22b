import type { Decision } from '../src/events.ts';
import { isLapsed, isLive, type StoreTime, type TaskRecord } from '../src/record.ts';

/** One task's compare-and-set register, as a ledger driver has to be one: it honours `expect` and stamps leases from its own clock. */
export interface TaskRegister {
  readonly record: TaskRecord | undefined;
  /** Writes if the decision's expectation holds at `now`; gives what stands there afterwards. */
  put(decision: Decision, now: StoreTime): { readonly ok: boolean; readonly record: TaskRecord | undefined };
  /** A newer version of the library rewrites the record behind ours. */
  rewrite(change: (record: TaskRecord) => TaskRecord): void;
}

export function taskRegister(): TaskRegister {
  let record: TaskRecord | undefined;
  const holds = ({ expect }: Decision, now: StoreTime): boolean => {
    if (!record || !('lease' in expect)) return record === undefined && expect.version === 0;
    if (record.version !== expect.version) return false;
    if (expect.lease === 'live') return isLive(record, now);
    return expect.lease === 'any' || isLapsed(record, now);
  };
  return {
    get record() {
      return record;
    },
    put(decision, now) {
      if (!holds(decision, now)) return { ok: false, record };
      const { next, leaseMs } = decision;
      record = deepFreeze(leaseMs === undefined ? next : { ...next, leaseExpiresAt: now.latest + leaseMs });
      return { ok: true, record };
    },
    rewrite(change) {
      if (record) record = deepFreeze({ ...change(record), version: record.version + 1, opId: 'newer' });
    },
  };
}

/** So that a rule which changes what it was given throws. */
export function deepFreeze<Value>(value: Value): Value {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const inner of Object.values(value)) deepFreeze(inner);
  }
  return value;
}
