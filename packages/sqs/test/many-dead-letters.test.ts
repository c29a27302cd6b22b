/** Thousands of dead letters, as there are after an outage, seen over a line with a delay. The emulator's time goes in whole seconds, too coarse for it. */
import { expect, test } from 'vitest';
import {
  LeaseholdError,
  redriveTasks,
  sleep,
  sweepTasks,
  virtualClock,
  type DeadLetter,
  type VirtualClock,
} from '@leasehold/core';
import { memoryLedger } from '@leasehold/core/memory';
import { sqsBroker, type SqsBroker } from '@leasehold/sqs';

const never = new AbortController().signal;
const queueUrl = 'https://sqs.eu-central-1.amazonaws.com/123456789012/tickets';
const deadLetterQueueUrl = `${queueUrl}-dead`;

/** The inputs of all calls that are used, in one. */
interface Input {
  readonly QueueUrl: string;
  readonly MaxNumberOfMessages: number;
  readonly VisibilityTimeout: number;
  readonly WaitTimeSeconds: number;
  readonly Entries: readonly Entry[];
}

interface Entry {
  readonly Id: string;
  readonly MessageBody?: string;
  readonly MessageAttributes?: unknown;
  readonly MessageGroupId?: string;
  readonly ReceiptHandle?: string;
  readonly VisibilityTimeout?: number;
}

interface Stored {
  readonly id: string;
  readonly entry: Omit<Entry, 'Id'>;
  visibleAt: number;
}

/** Standard queues behind a line of `rttMs`; of the visible messages the oldest comes first. */
class Server {
  readonly #clock: VirtualClock;
  readonly #rttMs: number;
  readonly #queues = new Map<string, Map<string, Stored>>();
  #ids = 0;
  /** Standard queues hand out in no order. */
  shuffle = false;
  /** Messages in one answer. */
  most = 10;

  constructor(clock: VirtualClock, rttMs: number) {
    this.#clock = clock;
    this.#rttMs = rttMs;
  }

  of(url: string): Map<string, Stored> {
    const queue = this.#queues.get(url) ?? new Map<string, Stored>();
    this.#queues.set(url, queue);
    return queue;
  }

  put(url: string, entry: Stored['entry']): string {
    const id = `m${this.#ids++}`;
    this.of(url).set(id, { id, entry, visibleAt: 0 });
    return id;
  }

  visible(url: string): number {
    return [...this.of(url).values()].filter(({ visibleAt }) => visibleAt <= this.#clock.monotonic()).length;
  }

  async send(command: object, { abortSignal = never }: { readonly abortSignal?: AbortSignal } = {}): Promise<unknown> {
    const { input } = command as { readonly input: Input };
    const queue = this.of(input.QueueUrl);
    await sleep(this.#clock, this.#rttMs, abortSignal);
    if (command.constructor.name === 'ReceiveMessageCommand') return this.#receive(queue, input, abortSignal);
    for (const { ReceiptHandle = '', VisibilityTimeout = 0 } of input.Entries) {
      const stored = queue.get(ReceiptHandle);
      if (command.constructor.name === 'DeleteMessageBatchCommand') queue.delete(ReceiptHandle);
      else if (stored) stored.visibleAt = this.#clock.monotonic() + VisibilityTimeout * 1_000;
    }
    const sends = command.constructor.name === 'SendMessageBatchCommand';
    return {
      Successful: input.Entries.map(({ Id, ...entry }) => ({
        Id,
        ...(sends && { MessageId: this.put(input.QueueUrl, entry) }),
      })),
    };
  }

  async #receive(queue: Map<string, Stored>, input: Input, signal: AbortSignal): Promise<unknown> {
    const now = this.#clock.monotonic();
    const found: Stored[] = [];
    const all = [...queue.values()];
    if (this.shuffle) all.sort(() => Math.random() - 0.5);
    for (const stored of all) {
      if (found.length === Math.min(this.most, input.MaxNumberOfMessages)) break;
      if (stored.visibleAt <= now) found.push(stored);
    }
    for (const stored of found) stored.visibleAt = now + input.VisibilityTimeout * 1_000;
    if (found.length === 0) await sleep(this.#clock, input.WaitTimeSeconds * 1_000, signal);
    return {
      Messages: found.map(({ id, entry: { MessageBody, MessageAttributes, MessageGroupId } }) => ({
        MessageId: id,
        ReceiptHandle: id,
        Body: MessageBody,
        MessageAttributes,
        Attributes: { ApproximateReceiveCount: '1', ...(MessageGroupId !== undefined && { MessageGroupId }) },
      })),
    };
  }
}

function world(rttMs: number, letters: number) {
  const clock = virtualClock();
  const server = new Server(clock, rttMs);
  for (let at = 0; at < letters; at++) server.put(deadLetterQueueUrl, { MessageBody: `letter ${at}` });
  const driver = sqsBroker({ queueUrl, client: server, settings: { deadLetterQueueUrl }, clock });
  return { clock, server, driver, parts: { driver, ledger: memoryLedger({ clock }), clock } };
}

async function done<Result>(clock: VirtualClock, work: Promise<Result>): Promise<Result> {
  let over = false;
  const end = (): void => void (over = true);
  work.then(end, end);
  await clock.runUntil(() => over, 3_600_000);
  return work;
}

const readable = (driver: SqsBroker): Required<Pick<SqsBroker, 'deadLetters' | 'redrive'>> => {
  const { deadLetters, redrive } = driver;
  if (!deadLetters || !redrive) throw new Error('dead letters cannot be read here');
  return { deadLetters, redrive };
};

/** All pages, with a pause after each. */
async function listed(clock: VirtualClock, driver: SqsBroker, limit: number, pauseMs: number): Promise<DeadLetter[]> {
  const found: DeadLetter[] = [];
  let cursor: string | undefined;
  do {
    const ask = { limit, ...(cursor !== undefined && { cursor }) };
    const page = await done(clock, readable(driver).deadLetters(ask, never));
    found.push(...page.letters);
    cursor = page.cursor;
    await clock.advance(pauseMs);
  } while (cursor !== undefined);
  return found;
}

test.each([
  [100, 1_100],
  [10, 11_000],
])(
  'over a line of %d ms a sweep gets through %d dead letters, and leaves all of them in sight',
  async (rttMs, count) => {
    const { clock, parts, server } = world(rttMs, count);
    expect(await done(clock, sweepTasks(parts))).toMatchObject({ deadLetters: count });
    expect(server.visible(deadLetterQueueUrl)).toBe(count);
  },
);

test('over a line of 100 ms the last of 1,100 dead letters is redriven, alone or with all others', async () => {
  const { clock, parts, server } = world(100, 1_100);
  const last = await done(
    clock,
    redriveTasks(parts, ({ messageId }) => messageId === 'm1099'),
  );
  expect(last).toEqual({ reopened: [], moved: 1 });
  expect(server.visible(deadLetterQueueUrl)).toBe(1_099);
  expect(
    await done(
      clock,
      redriveTasks(parts, () => true),
    ),
  ).toEqual({ reopened: [], moved: 1_099 });
  expect([server.visible(deadLetterQueueUrl), server.visible(queueUrl)]).toEqual([0, 1_100]);
});

test('letters of a page that was just shown can be redriven, and the listing goes on', async () => {
  const { clock, driver } = world(1, 30);
  const { deadLetters, redrive } = readable(driver);
  const first = await done(clock, deadLetters({ limit: 10 }, never));
  const chosen = first.letters.slice(0, 3).map(({ messageId }) => messageId);
  expect(await done(clock, redrive(chosen, never))).toBe(3);
  const second = await done(clock, deadLetters({ limit: 30, cursor: first.cursor ?? '' }, never));
  expect(second.letters).toHaveLength(20);
  expect(second.cursor).toBeUndefined();
});

test('a listing that takes longer than letters stay out of sight shows each of them once', async () => {
  const { clock, driver } = world(1, 30);
  const found = await listed(clock, driver, 10, 301_000);
  expect(new Set(found.map(({ messageId }) => messageId)).size).toBe(30);
  expect(found).toHaveLength(30);
});

test('a driver that is closed in the middle of a listing leaves all letters in sight', async () => {
  const { clock, driver, server } = world(1, 300);
  await done(clock, readable(driver).deadLetters({ limit: 100 }, never));
  expect(server.visible(deadLetterQueueUrl)).toBe(200);
  await done(clock, driver.close());
  expect(server.visible(deadLetterQueueUrl)).toBe(300);
});

test('a listing that begins anew shows those that an abandoned one had taken', async () => {
  const { clock, driver } = world(1, 12_000);
  const { deadLetters } = readable(driver);
  for (let cursor: string | undefined, pages = 0; pages < 11; pages++)
    ({ cursor } = await done(clock, deadLetters({ limit: 1_000, ...(cursor !== undefined && { cursor }) }, never)));
  expect(await listed(clock, driver, 1_000, 0)).toHaveLength(12_000);
});

test('the group of a fair queue survives dead-lettering and redrive', async () => {
  const { clock, driver, server } = world(1, 0);
  const bytes = new TextEncoder().encode('x');
  await done(clock, driver.send([{ body: bytes, attributes: {}, groupId: 'tenant-7' }], never));
  const ask = { max: 1, leaseMs: 60_000, waitMs: 0 };
  const [held] = await done(clock, driver.receive(ask, never));
  if (!held) throw new Error('nothing came');
  await done(clock, driver.reject(held.handle, { reason: 'r', description: '', attributes: {} }, never));
  expect([...server.of(deadLetterQueueUrl).values()][0]?.entry.MessageGroupId).toBe('tenant-7');
  expect(
    await done(
      clock,
      redriveTasks({ driver, ledger: memoryLedger({ clock }), clock }, () => true),
    ),
  ).toMatchObject({
    moved: 1,
  });
  expect((await done(clock, driver.receive(ask, never)))[0]?.groupId).toBe('tenant-7');
});

test('a redrive over a slow line leaves no letter behind and none out of sight, in whatever order they come', async () => {
  const { clock, parts, server } = world(200, 6_000);
  server.shuffle = true;
  expect(
    await done(
      clock,
      redriveTasks(parts, () => true),
    ),
  ).toEqual({ reopened: [], moved: 6_000 });
  expect([server.visible(deadLetterQueueUrl), server.visible(queueUrl)]).toEqual([0, 6_000]);
});

test.each([1, 3, 10])('letters that come %d at a time are all listed in time', async (most) => {
  const { clock, parts, server } = world(100, 1_100);
  server.most = most;
  expect(await done(clock, sweepTasks(parts))).toMatchObject({ deadLetters: 1_100 });
  expect(server.visible(deadLetterQueueUrl)).toBe(1_100);
});

test.each(['a listing', 'a redrive'])(
  'a close in the middle of %s ends it, and leaves all letters in sight',
  async (what) => {
    const { clock, driver, server } = world(100, 2_000);
    const { deadLetters, redrive } = readable(driver);
    const running = what === 'a listing' ? deadLetters({ limit: 1_000 }, never) : redrive(['m1999'], never);
    const ended = running.then(
      () => 'done',
      (error: unknown) => (error instanceof LeaseholdError ? error.code : error),
    );
    await clock.advance(450);
    expect(server.visible(deadLetterQueueUrl)).toBeLessThan(2_000);
    await done(clock, driver.close());
    expect(server.visible(deadLetterQueueUrl)).toBe(2_000);
    expect(await ended).toBe('closed');
  },
);

test('letters that are chosen and not found again are told of', async () => {
  const { clock, driver, parts, server } = world(1, 30);
  const other = sqsBroker({ queueUrl, client: server, settings: { deadLetterQueueUrl }, clock });
  const taken = new Set<string>();
  const { redrive } = readable(driver);
  const disturbed: typeof driver = {
    ...driver,
    async redrive(ids, signal) {
      // Somebody else begins to look at them in between.
      const { letters } = await readable(other).deadLetters({ limit: 10 }, never);
      for (const { messageId } of letters) taken.add(messageId);
      return redrive(ids, signal);
    },
  };
  const report = await done(
    clock,
    redriveTasks({ ...parts, driver: disturbed }, () => true),
  );
  expect(report).toEqual({ reopened: [], moved: 20, missing: 10 });
  expect(taken.size).toBe(10);
});
