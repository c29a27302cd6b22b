import { race, type Race, type Row, type RowContext } from '../row.ts';

/** Messages in work at a time. One Consumer has ten, by its batches, whatever it is told. */
const CONCURRENCY = 50;
const NOTE = 'ours as in the row before, at a concurrency of 50; one Consumer works on one batch of ten at a time';

/** Each side has a queue and a table of its own on the same servers. */
const placeFor =
  (context: RowContext, row: string): NonNullable<Race['place']> =>
  async (side) => {
    const { servers, queue } = await context.servers();
    const name = `${row}-${side}`;
    return { servers, queueUrl: await queue(name), table: name };
  };

/** SQS alone, beside the loop that one writes by hand on the SDK. */
export const sqsRaw: Row = {
  id: 'sqs-raw',
  run: async (context) => [
    await race(context, {
      id: 'sqs-raw',
      title: 'SQS, memory ledger / raw SDK loops',
      goal: { atLeast: 0.9 },
      ours: 'sqs-ours',
      peer: 'sqs-raw',
      concurrency: CONCURRENCY,
      tasks: 10_000,
      place: placeFor(context, 'sqs-raw'),
    }),
  ],
};

/** SQS alone, beside sqs-consumer in both of its ways. */
export const sqsConsumer: Row = {
  id: 'sqs-consumer',
  run: async (context) => [
    await race(context, {
      id: 'sqs-consumer',
      title: 'SQS, memory ledger / one Consumer, handleMessage',
      goal: { atLeast: 2.5 },
      ours: 'sqs-ours',
      peer: 'consumer-each',
      concurrency: CONCURRENCY,
      note: NOTE,
      tasks: 2_000,
      place: placeFor(context, 'consumer-each'),
    }),
    await race(context, {
      id: 'sqs-consumer-batch',
      title: 'SQS, memory ledger / one Consumer, handleMessageBatch',
      goal: { atLeast: 1 },
      ours: 'sqs-ours',
      peer: 'consumer-batch',
      concurrency: CONCURRENCY,
      note: NOTE,
      tasks: 4_000,
      place: placeFor(context, 'consumer-batch'),
    }),
  ],
};

/** SQS and DynamoDB, beside the raw loop with the same two conditional writes. */
export const awsRaw: Row = {
  id: 'aws-raw',
  run: async (context) => [
    await race(context, {
      id: 'aws-raw',
      title: 'SQS + DynamoDB / raw SDK loops with two conditional writes',
      goal: { atLeast: 0.9 },
      ours: 'aws-ours',
      peer: 'aws-raw',
      concurrency: CONCURRENCY,
      tasks: 4_500,
      place: placeFor(context, 'aws-raw'),
    }),
  ],
};

/** SQS and DynamoDB, beside what one would put together from packages. */
export const awsPowertools: Row = {
  id: 'aws-powertools',
  run: async (context) => [
    await race(context, {
      id: 'aws-powertools',
      title: 'SQS + DynamoDB / one Consumer with Powertools idempotency',
      goal: { atLeast: 1.8 },
      ours: 'aws-ours',
      peer: 'aws-powertools',
      concurrency: CONCURRENCY,
      note: NOTE,
      tasks: 1_000,
      place: placeFor(context, 'aws-powertools'),
    }),
  ],
};
