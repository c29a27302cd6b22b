import { LeaseholdError, type GuardStore, type StoreTime } from '@leasehold/core';
import { itemBytes, type Item } from './attribute.ts';
import { scopeFromItem, scopeToItem, unchanged } from './guard-item.ts';
import {
  decideBegin,
  decideExtend,
  decideFinish,
  decideLook,
  decideResolve,
  type Decision,
  type GuardScope,
} from './guard-scope.ts';
import { itemTable } from './item-table.ts';
import { clockOf, namesOf, type DynamoDbOptions } from './options.ts';
import { service } from './service.ts';

/** What {@link dynamoDbGuard} takes. */
export type DynamoDbGuardOptions = DynamoDbOptions;

/** A write that lost a race is decided anew from what won, so often at most: only other writes of the same scope can be in the way. */
const MOST_ROUNDS = 100;
/** Items of scopes with open holds that this process wrote: the end of a hold then takes one call. */
const REMEMBERED = 1_000;
const REMEMBERED_BYTES = 16 * 1024;

/**
 * A receiver's memory in a DynamoDB table, also the ledger's own. One item per scope holds the highest token and the scope's keys with
 * their responses, and each change is one conditional write of that item, so that fence and key are checked as one. A request that is new
 * takes two writes, `begin` and `finish`.
 *
 * A hold that ran out is in doubt until `resolve` or its bearer says how it ended, and is never thrown away; responses are, after their
 * retention, by the table's TTL. What one scope remembers has to fit into 400 KB; beyond that calls reject with `record-too-large`, and
 * nothing is forgotten to make room. Holds are judged to 1.25 s or better, on the safe side: in doubt only when certainly over.
 *
 * @throws LeaseholdError `bad-option` at once. Calls reject with the SDK's errors, `bad-option` or `unavailable` when the table does not
 * fit, `record-too-large`, `record-corrupt`, or `unavailable` when other writes of the same scope were always faster.
 *
 * @example
 * ```ts
 * import { dynamoDbGuard } from '@leasehold/dynamodb';
 *
 * const store = dynamoDbGuard({ table: 'leasehold', region: 'eu-central-1' });
 * ```
 *
 * See https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/BestPractices_ImplementingVersionControl.html
 */
export function dynamoDbGuard(options: DynamoDbGuardOptions): GuardStore {
  const names = namesOf(options);
  const remote = service(options, clockOf(options));
  const table = itemTable(remote, names);
  const remembered = new Map<string, Item>();
  let checked = false;
  let checking: Promise<void> | undefined;

  const check = async (signal: AbortSignal): Promise<void> => {
    if (checked) return;
    // Somebody else's look may be given up with its own call.
    const others = checking?.then(
      () => true,
      () => false,
    );
    if (await others) return;
    checking = table.check(false, signal);
    await checking;
    checked = true;
  };
  const remember = (name: string, item: Item, open: boolean): void => {
    remembered.delete(name);
    if (!open || itemBytes(item) > REMEMBERED_BYTES) return;
    remembered.set(name, item);
    const [oldest] = remembered.keys();
    if (remembered.size > REMEMBERED && oldest !== undefined) remembered.delete(oldest);
  };

  /** Decides from the scope as it was seen and writes the outcome if it still is so. */
  async function decideOn<Answer>(
    name: string,
    signal: AbortSignal,
    decide: (scope: GuardScope, now: StoreTime) => Decision<Answer>,
  ): Promise<Answer> {
    const key = names.key('guard', name);
    await check(signal);
    // A guess, which saves a read: what this process wrote last, or that nothing is there. The condition sees to it.
    let seen = remembered.get(name);
    let certain = false;
    for (let round = 0; round < MOST_ROUNDS; round++) {
      let now = table.estimate();
      // Nothing is known of the time: there was no answer yet, or the machine slept while the last one was on its way.
      if (!now) {
        ({ item: seen, now } = await table.getTimed(key, signal));
        certain = true;
      }
      const { answer, next } = decide(scopeFromItem(seen), now ?? remote.now());
      if (next) {
        const item = scopeToItem(next, name, seen, names);
        const written = await table.put(item, key, unchanged(seen, names), signal);
        if (written.ok) {
          remember(
            name,
            item,
            next.keys.some(({ end }) => 'heldUntil' in end),
          );
          return answer;
        }
        seen = written.current;
      } else if (certain) {
        return answer;
      } else {
        // An answer that needs no write has to rest on what is there, not on a guess.
        seen = await table.get(key, signal);
      }
      certain = true;
    }
    throw new LeaseholdError(
      'unavailable',
      `Other writes of one scope were faster ${MOST_ROUNDS} times in a row. Send the request again; use one scope per task.`,
      { field: 'scope' },
    );
  }

  return {
    specVersion: 1,
    name: 'dynamodb',
    begin: (ask, signal) => decideOn(ask.scope, signal, (scope, now) => decideBegin(scope, ask, now)),
    extend: (hold, holdMs, signal) =>
      decideOn(hold.scope, signal, (scope, now) => decideExtend(scope, hold, holdMs, now)),
    finish: (hold, response, signal) =>
      decideOn(hold.scope, signal, (scope, now) => decideFinish(scope, hold, response, now)),
    look: (ask, signal) => decideOn(ask.scope, signal, (scope, now) => decideLook(scope, ask, now)),
    resolve: (hold, response, signal) =>
      decideOn(hold.scope, signal, (scope, now) => decideResolve(scope, hold, response, now)),
    async close() {
      remembered.clear();
      await remote.close();
    },
  };
}
