import { execFileSync } from 'node:child_process';
import { DynamoDBClient, GetItemCommand } from '@aws-sdk/client-dynamodb';
import { GetQueueAttributesCommand, SQSClient } from '@aws-sdk/client-sqs';
import { buildClient, type ClientSettings } from '@leasehold/aws';
import { kinds, startSqs } from '@leasehold/emulators';
import { afterEach, describe, expect, test, vi } from 'vitest';

const CREDENTIALS = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG', sessionToken: 'token' };
const CONNECTION = { region: 'eu-central-1', endpoint: 'http://127.0.0.1:1', credentials: CREDENTIALS };
type Settings = ClientSettings<typeof CREDENTIALS>;

const attributes = (url: string): GetQueueAttributesCommand =>
  new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: ['All'] });
const item = (): GetItemCommand => new GetItemCommand({ TableName: 'tasks', Key: { pk: { S: 'ünïcode' } } });

afterEach(() => {
  vi.useRealTimers();
});

/** With the SDK's own hash. */
class PlainSqs extends SQSClient {
  constructor({ sha256: _ours, ...settings }: Settings) {
    super(settings);
  }
}
class PlainDynamoDb extends DynamoDBClient {
  constructor({ sha256: _ours, ...settings }: Settings) {
    super(settings);
  }
}

/** Signatures of a client's first two calls, which are not sent. Clients of the SDK differ in nothing that matters here. */
async function signatures(client: object, call: () => Promise<unknown>): Promise<readonly string[]> {
  const seen: string[] = [];
  (client as SQSClient).middlewareStack.add(
    () =>
      async ({ request }) => {
        const { headers } = request as { readonly headers: Readonly<Record<string, string>> };
        seen.push(headers['authorization'] ?? '');
        throw new Error('not sent');
      },
    { step: 'deserialize', priority: 'low', name: 'stop' },
  );
  for (let calls = 0; calls < 2; calls++) await expect(call()).rejects.toThrow('not sent');
  return seen;
}

describe('a client that was built', () => {
  test('signs as the SDK’s own hash does', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 1_800_000_000_000 });
    const queues = [buildClient(SQSClient, CONNECTION), buildClient(PlainSqs, CONNECTION)];
    const tables = [buildClient(DynamoDBClient, CONNECTION), buildClient(PlainDynamoDb, CONNECTION)];
    const [ours, plain] = await Promise.all(
      queues.map((client) => signatures(client, () => client.send(attributes('http://127.0.0.1:1/1/q')))),
    );
    const [ourTable, plainTable] = await Promise.all(
      tables.map((client) => signatures(client, () => client.send(item()))),
    );
    expect(ours).toEqual(plain);
    expect(ourTable).toEqual(plainTable);
    for (const signature of [...(ours ?? []), ...(ourTable ?? [])])
      expect(signature).toMatch(/^AWS4-HMAC-SHA256 .*Signature=[\da-f]{64}$/);
  });

  test('makes a call once, whatever comes of it', async () => {
    const server = await startSqs();
    const { endpoint, region, credentials } = server;
    const client = buildClient(SQSClient, { endpoint, region, credentials });
    try {
      const failing = server.faults.on('GetQueueAttributes', kinds.failBefore('unavailable'), { times: Infinity });
      await expect(client.send(attributes(`${endpoint}/000000000000/q`))).rejects.toMatchObject({ $fault: 'server' });
      expect(failing.hits).toBe(1);
      failing.cancel();
      const { url } = await server.createQueue('q');
      expect((await client.send(attributes(url))).Attributes).toHaveProperty('QueueArn');
    } finally {
      client.destroy();
      await server.close();
    }
  });

  test('asks again for credentials that run out, as the SDK does', async () => {
    let asked = 0;
    const credentials = async () => ({ ...CREDENTIALS, accessKeyId: `AKID${++asked}`, expiration: new Date(0) });
    const client = buildClient(SQSClient, { ...CONNECTION, credentials });
    const [first, second] = await signatures(client, () => client.send(attributes('http://127.0.0.1:1/1/q')));
    const used = (signature = ''): string | undefined => /Credential=(\w+)/.exec(signature)?.[1];
    expect(used(first)).toMatch(/^AKID\d$/);
    expect(used(second)).not.toBe(used(first));
  });

  test('has its configuration laid out in a row, which the SDK’s is not', () => {
    const script = `
      import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
      import { SQSClient } from '@aws-sdk/client-sqs';
      import { buildClient } from '@leasehold/aws';
      const rows = [SQSClient, DynamoDBClient].flatMap((Client) => {
        const ours = buildClient(Client, { region: 'eu-central-1' }).config;
        return [%HasFastProperties(ours), %HasFastProperties(new Client({ region: 'eu-central-1' }).config)];
      });
      console.log(JSON.stringify(rows));`;
    const flags = ['--allow-natives-syntax', '--conditions=@leasehold/source', '--disable-warning=ExperimentalWarning'];
    const printed = execFileSync(process.execPath, [...flags, '--input-type=module', '-e', script], {
      cwd: import.meta.dirname,
      encoding: 'utf8',
    });
    expect(JSON.parse(printed)).toEqual([true, false, true, false]);
  });
});
