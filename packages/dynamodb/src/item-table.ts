import { DescribeTableCommand, GetItemCommand, PutItemCommand } from '@aws-sdk/client-dynamodb';
import type { AttributeValue, PutItemCommandInput, TableDescription } from '@aws-sdk/client-dynamodb';
import { LeaseholdError, type StoreTime } from '@leasehold/core';
import type { Item } from './attribute.ts';
import { classifyDynamoDbError, errorName } from './dynamodb-errors.ts';
import type { Service } from './service.ts';
import { CLOCK_ERROR_MS } from './service-clock.ts';
import { indexFault, tableFault } from './table-check.ts';
import type { TableNames } from './table-names.ts';

/** When a write may happen; every name is aliased, since many are reserved words. */
export interface Condition {
  readonly expression: string;
  readonly names: Readonly<Record<string, string>>;
  readonly values?: Readonly<Record<string, AttributeValue>>;
}

/** What a conditional write came to. A refusal carries the item as it stands. */
type Written = { readonly ok: true } | { readonly ok: false; readonly current: Item | undefined };

/** Single items of one table. */
export interface ItemTable {
  /** Strongly consistent. */
  get(key: Item, signal: AbortSignal): Promise<Item | undefined>;
  /** Strongly consistent, and the service's time after it. */
  getTimed(key: Item, signal: AbortSignal): Promise<{ readonly item: Item | undefined; readonly now: StoreTime }>;
  /** Puts the item if the condition holds. */
  put(item: Item, key: Item, condition: Condition, signal: AbortSignal): Promise<Written>;
  /** The service's time now, good enough to judge by; nothing when something has to be read first. */
  estimate(): StoreTime | undefined;
  /** Compares the table with what is expected of it. @throws LeaseholdError `bad-option`, `not-found` or `unavailable` */
  check(index: boolean, signal: AbortSignal): Promise<void>;
}

/** Single items of one table behind a service. */
export function itemTable(service: Service, names: TableNames): ItemTable {
  const { table } = names;
  const get = async (key: Item, signal: AbortSignal): Promise<Item | undefined> => {
    const { Item: item } = await service.send(
      new GetItemCommand({ TableName: table, Key: key, ConsistentRead: true }),
      signal,
    );
    return item;
  };
  return {
    get,
    async getTimed(key, signal) {
      const item = await get(key, signal);
      const now = service.now();
      if (now.latest - now.earliest <= 2 * CLOCK_ERROR_MS) return { item, now };
      // The machine slept while the answer was on its way: what is stamped from this would end late by as much.
      return { item: await get(key, signal), now: service.now() };
    },
    async put(item, key, condition, signal) {
      const input: PutItemCommandInput = {
        TableName: table,
        Item: item,
        ConditionExpression: condition.expression,
        ExpressionAttributeNames: condition.names,
        ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
        ...(condition.values && { ExpressionAttributeValues: condition.values }),
      };
      try {
        await service.send(new PutItemCommand(input), signal);
        return { ok: true };
      } catch (error) {
        if (errorName(error) !== 'ConditionalCheckFailedException') throw error;
        const shown = (error as { readonly Item?: Item }).Item;
        // Without an item there is none, or the server does not show it.
        return { ok: false, current: shown ?? (await get(key, signal)) };
      }
    },
    estimate() {
      const now = service.clock.now();
      return now && now.latest - now.earliest <= CLOCK_ERROR_MS ? now : undefined;
    },
    async check(index, signal) {
      let found: TableDescription | undefined;
      try {
        ({ Table: found } = await service.send(new DescribeTableCommand({ TableName: table }), signal));
      } catch (error) {
        const code = classifyDynamoDbError(error);
        // Who may not describe the table may still use it. What is wrong with it shows at the first call then. Without good credentials nothing can be used.
        if (errorName(error).startsWith('AccessDenied')) return;
        if (code !== 'not-found') throw error;
        throw new LeaseholdError(
          'not-found',
          `table ${table} does not exist in this account and Region; make it with \`leasehold aws create-table\`.`,
          { field: 'table', cause: error },
        );
      }
      const fault = tableFault(found, names) ?? (index ? indexFault(found, names) : undefined);
      if (fault) throw fault;
    },
  };
}
