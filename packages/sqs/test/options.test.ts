import { SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { isLeaseholdError } from '@leasehold/core';
import { kinds } from '@leasehold/emulators';
import { sqsBroker, type SqsBrokerOptions } from '@leasehold/sqs';
import { brokerOptions } from '../src/options.ts';
import { machine, never, type Machine } from './machine.ts';

const queueUrl = 'https://sqs.eu-central-1.amazonaws.com/123456789012/tickets';

describe('options', () => {
  const WRONG: readonly (readonly [field: string, options: object | null])[] = [
    ['options', null],
    ['queueUrl', {}],
    ['queueUrl', { queueUrl: 'tickets' }],
    ['queueUrl', { queueUrl: 'arn:aws:sqs:eu-central-1:123456789012:tickets' }],
    ['client', { queueUrl, client: {} }],
    ['client', { queueUrl, client: null }],
    ['pollClient', { queueUrl, pollClient: 'x' }],
    ['region', { queueUrl, region: '' }],
    ['region', { queueUrl, region: 'eu-central-1', client: { send: () => undefined } }],
    ['endpoint', { queueUrl, endpoint: 'localhost:4566' }],
    ['credentials', { queueUrl, credentials: 'AKIA' }],
    ['longPoll', { queueUrl, longPoll: '21s' }],
    ['longPoll', { queueUrl, longPoll: 20 }],
    ['longPoll', { queueUrl, longPoll: '1500ms' }],
    ['longPoll', { queueUrl, longPoll: '0s' }],
    ['settings', { queueUrl, settings: 'none' }],
    ['settings.deadLetterQueueUrl', { queueUrl, settings: { deadLetterQueueUrl: 'tickets-dead' } }],
    ['settings.deadLetterQueueUrl', { queueUrl, settings: { deadLetterQueueUrl: queueUrl } }],
    ['settings.deadLetterQueueUrl', { queueUrl, settings: { maxReceiveCount: 5 } }],
    [
      'settings.maxReceiveCount',
      { queueUrl, settings: { deadLetterQueueUrl: `${queueUrl}-dead`, maxReceiveCount: 0 } },
    ],
    ['settings.maxMessageBytes', { queueUrl, settings: { maxMessageBytes: 2 ** 21 } }],
  ];
  test.each(WRONG)('%s of %j is refused by name', (field, options) => {
    let thrown: unknown;
    try {
      sqsBroker(options as SqsBrokerOptions);
    } catch (error) {
      thrown = error;
    }
    expect(isLeaseholdError(thrown) && [thrown.code, thrown.field]).toEqual(['bad-option', field]);
  });

  test('a secret is never part of an error', () => {
    const credentials = 'AKIA-hunter2' as never;
    expect(() => sqsBroker({ queueUrl, credentials })).not.toThrow(/hunter2/);
    expect(() => sqsBroker({ queueUrl, credentials })).toThrow(/credentials/);
  });

  test.each([
    [queueUrl, { region: 'eu-central-1' }],
    ['https://sqs.cn-north-1.amazonaws.com.cn/1/q', { region: 'cn-north-1' }],
    ['https://sqs.eusc-de-east-1.amazonaws.eu/1/q', { region: 'eusc-de-east-1' }],
    [
      'https://vpce-1.sqs.us-gov-west-1.vpce.amazonaws.com/1/q',
      { region: 'us-gov-west-1', endpoint: 'https://vpce-1.sqs.us-gov-west-1.vpce.amazonaws.com' },
    ],
    [
      'https://sqs-fips.us-east-1.amazonaws.com/1/q',
      { region: 'us-east-1', endpoint: 'https://sqs-fips.us-east-1.amazonaws.com' },
    ],
    ['http://127.0.0.1:4566/000000000000/q', { endpoint: 'http://127.0.0.1:4566' }],
  ])('%s says where its requests go', (url, connection) => {
    expect(brokerOptions({ queueUrl: url }).connection).toEqual(connection);
  });
});

describe('opening', () => {
  let one: Machine;
  beforeAll(async () => {
    one = await machine();
  });
  afterAll(() => one.close());

  test('asks the queue once, and what it says is in the capabilities', async () => {
    const queue = await one.queue({ maxReceiveCount: 7, attributes: { MaximumMessageSize: '262144' } });
    const driver = queue.driver();
    expect(driver.capabilities).toMatchObject({ deadLetter: 'none' });
    const before = one.server.faults.calls('GetQueueAttributes');
    await driver.open(never());
    await driver.open(never());
    expect(one.server.faults.calls('GetQueueAttributes') - before).toBe(1);
    expect(driver.capabilities).toMatchObject({ deadLetter: 'copy', maxDeliveries: 7, ordering: false });
    expect(driver.capabilities.maxBodyBytes).toBeGreaterThan(262_144 - 200);
    expect(driver.capabilities.maxBodyBytes).toBeLessThan(262_144);
    await queue.dispose();
  });

  test('can be tried again after it failed, and a close in between is no error', async () => {
    const queue = await one.queue({ deadLetter: true });
    const driver = queue.driver();
    one.server.faults.on('GetQueueAttributes', kinds.failBefore('throttled'));
    const error = await driver.open(never()).catch((reason: unknown) => reason);
    expect(driver.classify(error)).toBe('throttled');
    await driver.open(never());
    expect(driver.capabilities.deadLetter).toBe('copy');
    await queue.dispose();
    await expect(driver.open(never())).rejects.toMatchObject({ code: 'closed' });
  });

  test('a role that may not read the attributes is told what to allow or to pass; with the settings passed nothing is asked', async () => {
    const queue = await one.queue({ deadLetter: true });
    const denied = one.server.faults.on('GetQueueAttributes', kinds.failBefore('denied'), { times: Infinity });
    const driver = queue.driver();
    const error = await driver.open(never()).catch((reason: unknown) => reason);
    expect(driver.classify(error)).toBe('denied');
    expect(error).toMatchObject({
      field: 'settings',
      message: expect.stringContaining('sqs:GetQueueAttributes') as string,
    });
    const told = queue.driver({ settings: { deadLetterQueueUrl: queue.deadLetterUrl ?? '', maxReceiveCount: 7 } });
    await told.open(never());
    expect(told.capabilities).toMatchObject({ deadLetter: 'copy', maxDeliveries: 7 });
    expect(denied.hits).toBe(1);
    denied.cancel();
    await queue.dispose();
  });

  test('a region that is nowhere to be found is named', async () => {
    const driver = sqsBroker({
      queueUrl: `${one.server.endpoint}/000000000000/q`,
      client: { send: () => Promise.reject(new Error('Region is missing')) },
    });
    await expect(driver.open(never())).rejects.toMatchObject({ code: 'bad-option', field: 'region' });
  });

  describe('a dead-letter queue', () => {
    const place = 'https://sqs.eu-central-1.amazonaws.com';
    /** Rejects a message where the queue's policy names this one; gives the URL it was sent to. */
    const sentTo = async (deadLetterTargetArn: string, source: string): Promise<string | undefined> => {
      let url: string | undefined;
      const send = (command: object): Promise<unknown> => {
        const { input } = command as { input: { QueueUrl: string; Entries?: readonly { Id: string }[] } };
        const RedrivePolicy = JSON.stringify({ deadLetterTargetArn, maxReceiveCount: 13 });
        if (!input.Entries) return Promise.resolve({ Attributes: { RedrivePolicy } });
        url ??= input.QueueUrl;
        return Promise.resolve({ Successful: input.Entries.map(({ Id }) => ({ Id, MessageId: 'm' })) });
      };
      const driver = sqsBroker({ queueUrl: source, client: { send } });
      const handle = { receipt: 'r', messageId: 'm', body: new Uint8Array([120]), attributes: {}, receivedAt: 0 };
      await driver.reject(handle, { reason: 'undecodable', description: '', attributes: {} }, never());
      return url;
    };

    test.each([
      ['of the same account', `${place}/123456789012/q`, 'eu-central-1:123456789012', `${place}/123456789012/dead`],
      ['of another account', `${place}/123456789012/q`, 'eu-central-1:210987654321', `${place}/210987654321/dead`],
      ['of a server', 'http://localhost:9324/queue/q', 'elasticmq:000000000000', 'http://localhost:9324/queue/dead'],
    ])('%s is the one that the policy names', async (_, source, owner, url) => {
      expect(await sentTo(`arn:aws:sqs:${owner}:dead`, source)).toBe(url);
    });

    test('of another Region is refused, since another one would be meant by its name', async () => {
      const away = sentTo('arn:aws:sqs:eu-west-1:123456789012:dead', `${place}/123456789012/q`);
      await expect(away).rejects.toMatchObject({
        code: 'refused',
        field: 'settings',
        message: expect.stringContaining('arn:aws:sqs:eu-west-1:123456789012:dead is in another Region') as string,
      });
    });
  });

  test('a queue that does not exist is named', async () => {
    const { endpoint, region, credentials } = one.server;
    const driver = sqsBroker({ queueUrl: `${endpoint}/000000000000/nothing`, region, credentials });
    const error = await driver.open(never()).catch((reason: unknown) => reason);
    expect(driver.classify(error)).toBe('not-found');
    expect(error).toMatchObject({ field: 'queueUrl' });
    await driver.close();
  });

  test('close destroys the clients it built, and leaves those that were given', async () => {
    const queue = await one.queue();
    const { endpoint, region, credentials } = one.server;
    const client = new SQSClient({ endpoint, region, credentials, maxAttempts: 1 });
    const driver = queue.driver({ client });
    await driver.send([{ body: new Uint8Array([65]), attributes: {} }], never());
    await driver.close();
    const again = queue.driver({ client });
    expect(await again.receive({ max: 1, leaseMs: 30_000, waitMs: 0 }, never())).toHaveLength(1);
    client.destroy();
    await queue.dispose();
  });
});
