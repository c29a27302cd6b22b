import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { pairCases, runCases, type PairHarness } from '@leasehold/contract';
import { virtualClock, type BrokerDriver, type VirtualClock } from '@leasehold/core';
import { steadyTime, type SteadyTime } from '@leasehold/core/testing';
import { createTable, dynamoDbLedger } from '@leasehold/dynamodb';
import { startDynamoDb, startSqs, type Emulator, type SqsEmulator } from '@leasehold/emulators';
import { sqsBroker } from '@leasehold/sqs';

const TABLE = 'leasehold';
/** More than any case receives a message: SQS moves none of itself. */
const MOST_RECEIVES = 1_000;
const STARTED_AT = Date.UTC(2026, 0, 1);
const never = new AbortController().signal;

let clock: VirtualClock;
let sqs: SqsEmulator;
let dynamodb: Emulator;
let time: SteadyTime;

beforeAll(async () => {
  clock = virtualClock();
  // A wall clock that is stepped here is not theirs.
  const service = { wall: () => STARTED_AT + clock.monotonic() };
  [sqs, dynamodb] = await Promise.all([startSqs({ time: service }), startDynamoDb({ time: service })]);
  time = steadyTime(clock, [sqs, dynamodb]);
  await createTable({ table: TABLE, ...at(dynamodb) });
});
afterAll(() => Promise.all([sqs.close(), dynamodb.close()]));

function at({ endpoint, region, credentials }: Emulator) {
  return { endpoint, region, credentials };
}

async function pairHarness(ending: '' | '.fifo'): Promise<PairHarness> {
  const name = randomUUID();
  const dead = await sqs.createQueue(`${name}-dead${ending}`);
  const { url } = await sqs.createQueue(`${name}${ending}`, {
    deadLetter: { queueUrl: dead.url, maxReceiveCount: MOST_RECEIVES },
  });
  const opened: { close(): Promise<void> }[] = [];
  const broker = (queueUrl: string): BrokerDriver => {
    const driver = sqsBroker({ queueUrl, ...at(sqs), clock });
    opened.push(driver);
    return time.watch(driver);
  };
  return {
    clock,
    async open() {
      const [driver, store] = [
        broker(url),
        dynamoDbLedger({ table: TABLE, prefix: `${name}#`, ...at(dynamodb), clock }),
      ];
      opened.push(store);
      await driver.open?.(never);
      return { broker: driver, ledger: time.watch(store) };
    },
    advance: (ms) => time.advance(ms),
    stepWall: (ms) => clock.stepWall(ms),
    async deadLetters() {
      const reader = broker(dead.url);
      const letters = await reader.receive({ max: 10, leaseMs: 60_000, waitMs: 0 }, never);
      const handles = letters.map(({ handle }) => handle);
      await reader.release(handles, 0, never);
      return letters.map(({ body, attributes }) => {
        const { leaseholdreason: reason = '', leaseholddescription: description = '' } = attributes;
        return { body, attributes, reason, description };
      });
    },
    async dispose() {
      const closing = Promise.all(opened.map((driver) => driver.close()));
      let closed = false;
      const done = (): void => void (closed = true);
      closing.then(done, done);
      // A poll that the server holds ends when its time has come.
      await time.until(() => closed, 60_000);
      await closing;
    },
  };
}

describe.each(['', '.fifo'] as const)('SQS%s and DynamoDB', (ending) => {
  const url = `https://sqs.us-east-1.amazonaws.com/000000000000/q${ending}`;
  const settings = { deadLetterQueueUrl: `${url}-dead`, maxReceiveCount: MOST_RECEIVES };
  const capabilities = {
    broker: sqsBroker({ queueUrl: url, settings }).capabilities,
    ledger: dynamoDbLedger({ table: TABLE, region: 'us-east-1' }).capabilities,
  };
  runCases(pairCases, () => pairHarness(ending), { test, capabilities });
});
