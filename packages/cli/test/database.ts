import {
  createLeaseBroker,
  DEFAULT_RETENTION_MS,
  leaseTiming,
  type AdoptOptions,
  type Lease,
  type NewTask,
  type TaskRecord,
} from '@leasehold/core';
import { sqliteBroker, sqliteLedger } from '@leasehold/sqlite';

const never = new AbortController().signal;

/** A task id that looks like a hash, beginning with `start`. */
function idOf(start: string): string {
  return start.padEnd(64, '0');
}

export const IDS = {
  settled: idOf('aa11'),
  followUp: `${idOf('aa11')}:next:0`,
  held: idOf('ab22'),
  lapsed: idOf('bb33'),
  dead: idOf('cc44'),
  cancelled: idOf('dd55'),
  open: idOf('ee66'),
  timed: idOf('ff77'),
  odd: 'odd-\u001b[31mred',
} as const;

/** What must be seen nowhere but in the record itself. */
export const SECRET = 'marker-of-content';

const OWNER = 'desk/host-1#nonce';

/** Fills a database as workers would, with a task in every state that matters. */
export async function fillDatabase(file: string): Promise<void> {
  const driver = sqliteBroker({ file });
  const ledger = sqliteLedger({ file });
  const broker = createLeaseBroker({ driver, ledger });
  const timing = leaseTiming('10m');
  const policy: AdoptOptions['policy'] = () => ({ timing, attempts: 5, retentionMs: DEFAULT_RETENTION_MS });

  const claim = async (taskId: string, more: Partial<NewTask> = {}): Promise<Lease> => {
    await broker.enqueue([
      {
        type: 'open_case',
        input: { text: SECRET },
        taskId,
        idempotencyKey: `key-of-${taskId.slice(0, 4)}`,
        agentRunId: 'run-1',
        ...more,
      },
    ]);
    const [acquired] = await broker.acquire({ owner: OWNER, policy, max: 1, leaseMs: 600_000, waitMs: 1_000 });
    if (acquired?.kind !== 'lease')
      throw new Error(`${taskId} was not granted but ${acquired?.kind ?? 'not delivered'}`);
    return acquired;
  };
  const intend = async ({ task }: Lease, effect: string): Promise<void> => {
    const details = { key: `${task.record.idempotencyKey}:${effect}`, system: 'crm' };
    const answer = await task.apply({ type: 'intend', effect, details, leaseMs: timing.leaseMs }, { repeat: true });
    if (!('applied' in answer)) throw new Error('the intent was not written');
  };
  const settle = async (lease: Lease, next = false): Promise<void> => {
    const { taskId, task } = lease;
    const receipt = {
      taskId,
      stage: 'settled',
      externalSystem: 'crm',
      externalId: 'CASE-7',
      status: 'open',
      verifiedAt: Date.now(),
    } as const;
    await broker.settle(lease, {
      receipt: { ...receipt, idempotencyKey: task.record.idempotencyKey },
      result: { inline: { text: SECRET } },
      ...(next && {
        next: [
          {
            taskId: `${taskId}:next:0`,
            type: 'tell_customer',
            idempotencyKey: `${taskId}:next:0`,
            input: { text: SECRET },
          },
        ],
      }),
    });
    await broker.drain();
  };

  const settled = await claim(IDS.settled);
  settled.task.carryProgress('external_call', 'page 2 of 3');
  await broker.renew(settled, { stage: 'external_call', reason: 'page 2 of 3' });
  await intend(settled, 'create');
  settled.task.carryFinding('create', { status: 'verified', externalId: 'CASE-7', externalStatus: 'open' });
  await settle(settled, true);
  const [followUp] = await broker.acquire({ owner: OWNER, policy, max: 1, leaseMs: 600_000, waitMs: 1_000 });
  if (followUp?.kind === 'lease') await settle(followUp);

  await claim(IDS.held, { agentRunId: 'run-2' });
  const lapsing = await claim(IDS.lapsed, { type: 'rebuild_index' });
  const { record } = lapsing;
  // As if nobody had renewed it for ten minutes.
  await ledger.put(
    { ...record, version: record.version + 1 },
    { ms: 1 },
    { version: record.version, lease: 'any' },
    never,
  );
  await broker.deadLetter(await claim(IDS.dead), {
    errorClass: 'permanent',
    code: 'PermanentError',
    message: 'the input does not fit',
  });
  const cancelled = await claim(IDS.cancelled);
  const cancel = { type: 'cancel', opId: 'x', taskId: IDS.cancelled, reason: 'x', retentionMs: 1_000 } as const;
  await ledger.put(
    { ...cancelled.record, state: 'cancelled', version: 2, opId: cancel.opId },
    undefined,
    { version: 1, lease: 'any' },
    never,
  );
  await intend(await claim(IDS.open, { agentRunId: 'run-3' }), 'charge');
  const odd = await ledger.get(IDS.held, never);
  if (odd.record)
    await ledger.put(
      { ...odd.record, taskId: IDS.odd, renewalReason: 'a\u001b[2Jb\nc', version: 1 },
      { ms: 600_000 },
      { version: 0 },
      never,
    );
  // One whose times are known to the millisecond.
  const at = Date.UTC(2026, 0, 5, 12);
  const timed: TaskRecord = {
    schemaVersion: '1.0',
    taskId: IDS.timed,
    taskType: 'open_case',
    state: 'settled',
    stage: 'settled',
    stageEnteredAt: at + 95_000,
    renewalCount: 2,
    history: [
      { stage: 'preflight', reason: 'claimed', at: at + 40 },
      { stage: 'external_call', reason: 'page 2 of 3', at: at + 1_240 },
      { stage: 'commit', reason: 'committing create', at: at + 90_000 },
    ],
    fencingToken: 1,
    attempt: 1,
    failures: 0,
    idempotencyKey: 'timed',
    effects: {
      create: {
        key: 'timed:create',
        status: 'verified',
        token: 1,
        system: 'crm',
        externalId: 'CASE-8',
        intendedAt: at + 90_000,
        verifiedAt: at + 95_000,
      },
    },
    version: 1,
    opId: 'x',
    createdAt: at,
    updatedAt: at + 95_000,
  };
  await ledger.put(timed, undefined, { version: 0 }, never);
  await broker.close();
}
