import { expect, test } from 'vitest';
import {
  createLeaseBroker,
  createTaskClient,
  leaseTiming,
  redriveTasks,
  sweepTasks,
  virtualClock,
  type AdoptOptions,
  type Lease,
} from '@leasehold/core';
import { memoryBroker, memoryLedger } from '@leasehold/core/memory';

function scene() {
  const clock = virtualClock();
  const driver = memoryBroker({ clock, maxDeliveries: 2 });
  const ledger = memoryLedger({ clock });
  const broker = createLeaseBroker({ driver, ledger, clock });
  const client = createTaskClient({ broker, ledger, clock });
  const ask: AdoptOptions = {
    owner: 'test/1#a',
    policy: () => ({ timing: leaseTiming('9s'), attempts: 5, retentionMs: broker.retentionMs }),
  };
  /** Awaits under the virtual clock. */
  const run = async <Result>(work: Promise<Result>, ms = 60_000): Promise<Result> => {
    let done = false;
    const end = (): void => void (done = true);
    work.then(end, end);
    await clock.runUntil(() => done, ms);
    return work;
  };
  const acquire = () => run(broker.acquire({ ...ask, max: 1, leaseMs: 9_000, waitMs: 0 }));
  return { clock, driver, ledger, broker, client, run, acquire };
}

async function leased(s: ReturnType<typeof scene>): Promise<Lease> {
  const [acquired] = await s.acquire();
  if (acquired?.kind !== 'lease') throw new Error(`no lease but ${acquired?.kind}`);
  return acquired;
}

test('a task whose message the broker dead-lettered is closed once nobody holds it, and only then', async () => {
  const s = scene();
  await s.run(s.client.enqueue([{ type: 'a', input: 1, taskId: 't-1' }]));
  await leased(s);
  // The message is delivered until the broker itself gives it up, while the first owner stays silent.
  await s.clock.advance(9_001);
  await leased(s);
  await s.clock.advance(9_001);
  await s.acquire();
  expect(s.driver.queue.deadLetters).toHaveLength(1);
  const parts = { ledger: s.ledger, driver: s.driver, clock: s.clock };

  const dry = await s.run(sweepTasks(parts, { dryRun: true }));
  expect(dry).toMatchObject({ closed: ['t-1'], deadLetters: 1 });
  expect(dry.lapsed).toMatchObject([{ taskType: 'a', stage: 'preflight', count: 1 }]);
  expect((await s.run(s.client.status('t-1'))).state).toBe('running');

  expect(await s.run(sweepTasks(parts))).toMatchObject({ closed: ['t-1'], live: [] });
  const { record } = await s.run(s.client.status('t-1'));
  expect(record).toMatchObject({ state: 'dead_lettered', deadLetterSent: true, lastError: { errorClass: 'swept' } });
  expect(await s.run(sweepTasks(parts))).toMatchObject({ closed: [], deadLetters: 1 });
});

test('a live task whose message is in the dead-letter queue is waited for, one with an open effect is named', async () => {
  const s = scene();
  await s.run(s.client.enqueue([{ type: 'a', input: 1, taskId: 't-1' }]));
  await leased(s);
  await s.clock.advance(9_001);
  const second = await leased(s);
  await s.run(
    second.task.apply(
      { type: 'intend', leaseMs: 60_000, effect: 'e', details: { key: 'k', system: 'x' } },
      { repeat: true },
    ),
  );
  await s.clock.advance(9_001);
  await s.acquire();
  const parts = { ledger: s.ledger, driver: s.driver, clock: s.clock };
  expect(await s.run(sweepTasks(parts))).toMatchObject({ live: ['t-1'], closed: [], needWorker: [] });
  await s.clock.advance(60_000);
  expect(await s.run(sweepTasks(parts))).toMatchObject({ live: [], closed: [], needWorker: ['t-1'] });
});

test('a redriven task runs again under a higher token and settles once, its second message is a replay', async () => {
  const s = scene();
  await s.run(s.client.enqueue([{ type: 'a', input: 1, taskId: 't-1' }]));
  const first = await leased(s);
  await s.run(s.broker.deadLetter(first, { errorClass: 'permanent', code: 'x', message: 'no' }));
  await s.run(s.broker.drain());
  const parts = { ledger: s.ledger, driver: s.driver, clock: s.clock };
  const none = await s.run(redriveTasks(parts, () => false));
  expect(none).toEqual({ reopened: [], moved: 0 });
  expect(await s.run(redriveTasks(parts, (_letter, taskId) => taskId === 't-1'))).toEqual({
    reopened: ['t-1'],
    moved: 1,
  });
  await s.run(s.client.enqueue([{ type: 'a', input: 1, taskId: 't-1' }]));

  const again = await leased(s);
  expect(again.token).toBeGreaterThan(first.task.token);
  const receipt = {
    taskId: 't-1',
    stage: 'settled',
    externalSystem: 'none',
    externalId: '-',
    status: 'done',
    idempotencyKey: 't-1',
    verifiedAt: 0,
  } as const;
  expect(await s.run(s.broker.settle(again, { receipt }))).toBe('settled');
  expect(await s.acquire()).toMatchObject([{ kind: 'replay', taskId: 't-1' }]);
  await s.run(s.broker.drain());
  expect(s.driver.queue.messages).toEqual([]);
});

test('a redrive killed after the reopening is done by running it again', async () => {
  const s = scene();
  await s.run(s.client.enqueue([{ type: 'a', input: 1, taskId: 't-1' }]));
  const first = await leased(s);
  await s.run(s.broker.deadLetter(first, { errorClass: 'permanent', code: 'x', message: 'no' }));
  await s.run(s.broker.drain());
  const killed = { ...s.driver, redrive: () => Promise.reject(new Error('killed')) };
  await expect(s.run(redriveTasks({ ledger: s.ledger, driver: killed, clock: s.clock }, () => true))).rejects.toThrow(
    'killed',
  );
  expect((await s.run(s.client.status('t-1'))).state).toBe('queued');
  const again = await s.run(redriveTasks({ ledger: s.ledger, driver: s.driver, clock: s.clock }, () => true));
  expect(again).toEqual({ reopened: [], moved: 1 });
  expect((await leased(s)).token).toBe(2);
});

test('a yes whose sender died before the message was sent is made good by a sweep', async () => {
  const s = scene();
  await s.run(s.client.enqueue([{ type: 'a', input: 1, taskId: 't-1' }]));
  const lease = await leased(s);
  expect(await s.run(s.broker.askHuman(lease, 'Really?'))).toBe('done');
  await s.run(s.broker.drain());
  expect(s.driver.queue.messages).toEqual([]);
  const mute = createTaskClient({ ledger: s.ledger, clock: s.clock });
  expect(await s.run(mute.answer('t-1', { approve: true, reason: 'fine' }))).toMatchObject({ done: true, sent: false });
  const parts = { ledger: s.ledger, driver: s.driver, broker: s.broker, clock: s.clock };
  expect((await s.run(sweepTasks(parts))).resent).toEqual([]);
  await s.clock.advance(60_001);
  expect((await s.run(sweepTasks(parts))).resent).toEqual(['t-1']);
  const again = await leased(s);
  expect(again).toMatchObject({
    taskId: 't-1',
    token: 2,
    record: { human: [{ question: 'Really?', approved: true, reason: 'fine' }] },
  });
});

test('a no dead-letters the task; reopened, its parked message is sent again', async () => {
  const s = scene();
  await s.run(s.client.enqueue([{ type: 'a', input: { n: 1 }, taskId: 't-1' }]));
  await s.run(s.broker.askHuman(await leased(s), 'Really?'));
  await s.run(s.broker.drain());
  expect(await s.run(s.client.answer('t-1', { approve: false, reason: 'no' }))).toMatchObject({ done: true });
  expect((await s.run(s.client.status('t-1'))).record).toMatchObject({
    state: 'dead_lettered',
    lastError: { errorClass: 'rejected' },
  });
  expect(await s.run(s.client.answer('t-1', { approve: true, reason: 'late' }))).toMatchObject({ done: false });
  expect(await s.run(s.client.reopen('t-1'))).toMatchObject({ done: true, sent: true });
  expect((await leased(s)).message.payload).toEqual({ n: 1 });
});

test('follow-ups of a settled task whose message was dead-lettered before they were sent are sent by a sweep', async () => {
  const s = scene();
  await s.run(s.client.enqueue([{ type: 'a', input: 1, taskId: 't-1' }]));
  const lease = await leased(s);
  const mute = createLeaseBroker({
    driver: { ...s.driver, send: () => Promise.reject(new Error('down')) },
    ledger: s.ledger,
    clock: s.clock,
  });
  const receipt = { stage: 'settled', externalSystem: 'none', externalId: '-', status: 'done', verifiedAt: 0 } as const;
  const next = [{ taskId: 't-1:next:0', type: 'b', idempotencyKey: 't-1:next:0', input: { n: 2 } }];
  const settled = mute.settle(lease, { receipt: { ...receipt, taskId: 't-1', idempotencyKey: 't-1' }, next });
  expect(await s.run(settled)).toBe('settled');
  await s.run(mute.drain(), 120_000);
  // Delivered until the broker gives it up, never with a way to send.
  for (let turn = 0; turn < 3; turn++) {
    await s.run(
      mute.acquire({ owner: 'test/1#b', policy: () => 'refuse', max: 1, leaseMs: 9_000, waitMs: 0 }),
      120_000,
    );
    await s.clock.advance(61_000);
  }
  expect(s.driver.queue.deadLetters).toHaveLength(1);
  const parts = { ledger: s.ledger, driver: s.driver, broker: s.broker, clock: s.clock };
  expect(await s.run(sweepTasks(parts, { dryRun: true }))).toMatchObject({ followUps: ['t-1'] });
  expect(await s.run(sweepTasks(parts))).toMatchObject({ followUps: ['t-1'], closed: [] });
  expect(await leased(s)).toMatchObject({ taskId: 't-1:next:0', message: { payload: { n: 2 } } });
  expect(await s.run(sweepTasks(parts))).toMatchObject({ followUps: [] });
});

test('a message that only bears the id of a task neither ends it by a sweep nor reopens it by a redrive', async () => {
  const s = scene();
  await s.run(s.client.enqueue([{ type: 'a', input: 1, taskId: 't-1' }]));
  const lease = await leased(s);
  // It failed once and waits for its next attempt, its own message with it.
  const error = { errorClass: 'error', code: 'Error', message: '' };
  await s.run(s.broker.release(lease, { error, delayMs: 600_000, failure: true }));
  await s.run(s.broker.drain());
  await s.run(s.client.enqueue([{ type: 'a', input: 'something else', taskId: 't-1' }]));
  expect(await s.acquire()).toMatchObject([{ kind: 'handled', why: 'task-id-reused' }]);
  const parts = { ledger: s.ledger, driver: s.driver, clock: s.clock };
  expect(await s.run(sweepTasks(parts))).toMatchObject({ deadLetters: 1, unrecorded: 1, closed: [] });
  expect((await s.run(s.client.status('t-1'))).state).toBe('queued');

  // Later the task is given up for a reason of its own.
  await s.clock.advance(600_001);
  await s.run(s.broker.deadLetter(await leased(s), error));
  await s.run(s.broker.drain());
  const redriven = await s.run(redriveTasks(parts, ({ reason }) => reason === 'task-id-reused'));
  expect(redriven).toEqual({ reopened: [], moved: 1 });
  expect((await s.run(s.client.status('t-1'))).state).toBe('dead_lettered');
});
