import { cpSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import * as ownCopy from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, expectTypeOf, test } from 'vitest';
import { sqsBroker, type SqsClient, type SqsConnection } from '@leasehold/sqs';
import { machine, never, type Machine } from './machine.ts';

let one: Machine;
let folder: string;
beforeAll(async () => {
  one = await machine();
  folder = mkdtempSync(join(tmpdir(), 'second-copy-'));
});
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await one.close();
});

/** The client's package once more, as npm lays it out where two versions are wanted; its own dependencies are shared. */
function secondCopy(): typeof ownCopy {
  const installed = dirname(createRequire(import.meta.url).resolve('@aws-sdk/client-sqs/package.json'));
  const scope = dirname(realpathSync(installed));
  const modules = join(folder, 'node_modules');
  mkdirSync(join(modules, '@aws-sdk'), { recursive: true });
  for (const name of readdirSync(scope)) {
    if (name !== 'client-sqs') symlinkSync(join(scope, name), join(modules, '@aws-sdk', name));
  }
  for (const name of readdirSync(dirname(scope))) {
    if (name !== '@aws-sdk' && name !== '@leasehold') symlinkSync(join(dirname(scope), name), join(modules, name));
  }
  cpSync(installed, join(modules, '@aws-sdk', 'client-sqs'), { recursive: true });
  return createRequire(join(folder, 'index.js'))('@aws-sdk/client-sqs') as typeof ownCopy;
}

describe('a client of a second copy of the SDK', () => {
  test('does everything that one of our own copy does', async () => {
    const copy = secondCopy();
    expect(copy.SQSClient).not.toBe(ownCopy.SQSClient);
    const { endpoint, region, credentials } = one.server;
    const client = new copy.SQSClient({ endpoint, region, credentials, maxAttempts: 1 });
    const queue = await one.queue({ deadLetter: true });
    const driver = queue.driver({ client });
    await driver.open(never());
    expect(driver.capabilities.deadLetter).toBe('copy');
    await driver.send([{ body: new TextEncoder().encode('x'), attributes: { a: 'b' } }], never());
    const [held] = await driver.receive({ max: 1, leaseMs: 30_000, waitMs: 0 }, never());
    expect(held?.attributes).toEqual({ a: 'b' });
    expect(await driver.extend([held?.handle as never], 30_000, never())).toEqual(['done']);
    const why = { reason: 'r', description: 'd', attributes: {} };
    expect(await driver.reject(held?.handle as never, why, never())).toBe('done');
    expect(await queue.letters()).toHaveLength(1);
    const missing = sqsBroker({ queueUrl: `${endpoint}/000000000000/nothing`, client });
    const error = await missing.open(never()).catch((reason: unknown) => reason);
    expect(missing.classify(error)).toBe('not-found');
    await queue.dispose();
    client.destroy();
  });
});

describe('types', () => {
  /** As another copy would declare it: with private parts of its own, so that the classes do not fit each other. */
  class OtherClient {
    readonly #handlers = new Map<string, object>();
    send<Output extends object>(
      command: { readonly input: object; readonly output?: Output },
      options?: { abortSignal?: AbortSignal; requestTimeout?: number },
    ): Promise<Output> {
      return Promise.reject(new Error(`${this.#handlers.size} ${Object.keys({ command, options }).length}`));
    }
    destroy(): void {
      this.#handlers.clear();
    }
  }

  test('the client of this copy and of any other fit, and so do what the SDK calls credentials', () => {
    expectTypeOf<ownCopy.SQSClient>().toExtend<SqsClient>();
    expectTypeOf<OtherClient>().toExtend<SqsClient>();
    expectTypeOf<OtherClient>().not.toExtend<ownCopy.SQSClient>();
    type Configured = NonNullable<ConstructorParameters<typeof ownCopy.SQSClient>[0]>;
    expectTypeOf<NonNullable<SqsConnection['credentials']>>().toExtend<NonNullable<Configured['credentials']>>();
  });

  test('what is no client does not fit', () => {
    expectTypeOf<{ destroy(): void }>().not.toExtend<SqsClient>();
  });
});
