import { createHash, randomBytes } from 'node:crypto';
import { PutItemCommand, type AttributeValue } from '@aws-sdk/client-dynamodb';
import { createTable } from '@leasehold/dynamodb';
import type { Side, SideOptions } from '../side.ts';
import { dynamoDbClient, sqsClient } from './aws-clients.ts';
import { rawLoops } from './sqs-raw.ts';

const LEASE_MS = 90_000;

const RETENTION_MS = 30 * 86_400_000;
const NOTHING = createHash('sha256').update('null').digest('hex');

type Item = Record<string, AttributeValue>;

const n = (value: number): AttributeValue => ({ N: String(value) });
const s = (value: string): AttributeValue => ({ S: value });

/** What is written when a task is taken: the fields that our ledger keeps, put together by hand. */
function taken(id: string, type: string, data: unknown, owner: string, now: number): Item {
  return {
    pk: s(`task#${id}`),
    schema_version: s('1.0'),
    task_type: s(type),
    state: s('running'),
    stage: s('preflight'),
    stage_entered_at: n(now),
    renewal_count: n(0),
    history: s('[]'),
    fencing_token: n(1),
    attempt: n(1),
    failures: n(0),
    idempotency_key: s(id),
    effects: s('{}'),
    version: n(1),
    op_id: s(randomBytes(9).toString('base64url')),
    created_at: n(now),
    updated_at: n(now),
    lease_owner: s(owner),
    lease_expires_at: n(now + LEASE_MS),
    heartbeat_at: n(now),
    payload_hash: s(createHash('sha256').update(JSON.stringify(data)).digest('hex')),
    lane: s(`task#running#${now % 16}`),
    lane_at: s(`${now}#${id.slice(-12)}`),
  };
}

/** The same item when the task is done. */
function done(item: Item, now: number): Item {
  const { lease_owner: _owner, lease_expires_at: _expiry, lane: _lane, lane_at: _at, ...kept } = item;
  const receipt = {
    stage: 'settled',
    external_system: 'none',
    external_id: NOTHING,
    status: 'done',
    verified_at: now,
    token: 1,
  };
  return {
    ...kept,
    state: s('settled'),
    stage: s('settled'),
    stage_entered_at: n(now),
    history: s(JSON.stringify([{ stage: 'preflight', reason: 'claimed', at: now }])),
    renewal_reason: s('claimed'),
    version: n(2),
    op_id: s(randomBytes(9).toString('base64url')),
    updated_at: n(now),
    settlement_receipt: s(JSON.stringify(receipt)),
    expires_at: n(now + RETENTION_MS),
    ttl: n(Math.ceil((now + RETENTION_MS) / 1_000)),
  };
}

/**
 * The raw loop with the two conditional writes that make a task run once: take it if nobody has, mark it done if it is still ours. The same
 * writes as ours, in a table of the same design: the same fields under the same conditions. There is no renewal, no takeover, no lost
 * answer that is recognised; the container's clock decides.
 */
export async function openAwsRaw(options: SideOptions): Promise<Side> {
  const { table = '', servers } = options;
  const dynamodb = dynamoDbClient(options);
  await createTable({ table, ...servers?.dynamodb });
  const owner = `worker/raw#${process.pid}`;
  const handler = async (_payload: unknown): Promise<void> => undefined;
  const side = rawLoops(sqsClient(options), options, async ({ Body = '' }) => {
    const event = JSON.parse(Body) as { readonly id: string; readonly type: string; readonly data: unknown };
    const item = taken(event.id, event.type, event.data, owner, Date.now());
    await dynamodb.send(
      new PutItemCommand({
        TableName: table,
        Item: item,
        ConditionExpression: 'attribute_not_exists(#key)',
        ExpressionAttributeNames: { '#key': 'pk' },
        ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
      }),
    );
    await handler(event.data);
    const now = Date.now();
    await dynamodb.send(
      new PutItemCommand({
        TableName: table,
        Item: done(item, now),
        ConditionExpression: '#version = :version AND #expiry > :now',
        ExpressionAttributeNames: { '#version': 'version', '#expiry': 'lease_expires_at' },
        ExpressionAttributeValues: { ':version': n(1), ':now': n(now) },
        ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
      }),
    );
  });
  return {
    ...side,
    async close() {
      dynamodb.destroy();
      await side.close();
    },
  };
}
