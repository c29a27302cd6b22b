import { boundedCall } from './bounded-call.ts';
import { systemClock, type Clock } from './clock.ts';
import { decide, isRefusal, openEffects } from './decide.ts';
import type { BrokerDriver, DeadLetter, LedgerDriver } from './driver.ts';
import { TASK_ID_ATTRIBUTE } from './envelope.ts';
import { LeaseholdError } from './errors.ts';
import type { LeaseBroker } from './lease-broker.ts';
import { DEFAULT_RETENTION_MS } from './lease-broker.ts';
import { ledgerSession, type LedgerSession } from './ledger-session.ts';
import { isLapsed, isTerminal, type Stage, type TaskRecord } from './record.ts';
import { newOpId } from './task-lease.ts';
import { checkNames } from './option-names.ts';
import { keepsMessage } from './parked-message.ts';

/** Lapsed tasks of one type and stage. */
export interface LapsedGroup {
  readonly taskType: string;
  readonly stage: Stage;
  readonly count: number;
  /** How long the lease of the oldest has been over, in milliseconds. */
  readonly oldestMs: number;
}

/** What a sweep found and did. Tasks by id. */
export interface SweepReport {
  /** Running tasks whose lease is over: the next delivery takes them over. */
  readonly lapsed: readonly LapsedGroup[];
  /** Messages in the dead-letter queue. */
  readonly deadLetters: number;
  /** Dead letters without a record: never claimed, or not a task at all. */
  readonly unrecorded: number;
  /** Which those are, for a redrive, and why each lies there. */
  readonly unrecordedLetters: readonly Pick<DeadLetter, 'messageId' | 'reason'>[];
  /** Their message lies in the dead-letter queue and nobody holds them: now `dead_lettered` (with `dryRun`: would be). */
  readonly closed: readonly string[];
  /** Their message lies in the dead-letter queue, but somebody is still working on them. */
  readonly live: readonly string[];
  /** Settled, but their follow-ups had not been sent when their message was dead-lettered: sent now (with `dryRun`, or without a broker: still to be sent). */
  readonly followUps: readonly string[];
  /** An effect is open, which only a worker can read back: redrive them. */
  readonly needWorker: readonly string[];
  /** A person had said yes and the message was not sent: sent now. */
  readonly resent: readonly string[];
}

/** What operators need: both drivers, and a lease broker where messages may have to be sent again. */
export interface OperatorParts {
  readonly ledger: LedgerDriver;
  readonly driver?: BrokerDriver;
  readonly broker?: Pick<LeaseBroker, 'resend' | 'sendFollowUps'>;
  readonly clock?: Clock;
  readonly retentionMs?: number;
}

const CALL_TIMEOUT_MS = 10_000;
/** Where a dead-letter queue can only be received from, one of its last letters is found behind all others. */
const REDRIVE_TIMEOUT_MS = 60_000;
/** Each call may have to read the whole queue for its letters. */
const REDRIVEN_AT_ONCE = 1_000;
const PAGE = 100;
/** An approved task is given this long to come back by itself before its message is sent again. */
const RESEND_AFTER_MS = 60_000;

/**
 * Lists lapsed tasks by stage, reads the dead-letter queue, and closes tasks whose message will not come back.
 *
 * @throws LeaseholdError `bad-option`; `unavailable`, or the driver's own error, when a store does not answer; what was closed by then stays closed.
 */
export async function sweepTasks(
  parts: OperatorParts,
  options: { readonly dryRun?: boolean } = {},
): Promise<SweepReport> {
  checkNames(options, { dryRun: true });
  const clock = parts.clock ?? systemClock();
  const ledger = ledgerSession(parts.ledger, clock);
  const lapsed = new Map<string, { taskType: string; stage: Stage; count: number; oldestMs: number }>();
  for await (const { record, now } of records(ledger, { lapsed: true })) {
    const key = `${record.taskType} ${record.stage}`;
    const group = lapsed.get(key) ?? { taskType: record.taskType, stage: record.stage, count: 0, oldestMs: 0 };
    group.count++;
    group.oldestMs = Math.max(group.oldestMs, now.latest - (record.leaseExpiresAt ?? now.latest));
    lapsed.set(key, group);
  }
  const report = {
    deadLetters: 0,
    unrecorded: 0,
    unrecordedLetters: [] as Pick<DeadLetter, 'messageId' | 'reason'>[],
    closed: [] as string[],
    live: [] as string[],
    followUps: [] as string[],
    needWorker: [] as string[],
  };
  for await (const letter of deadLetters(parts, clock)) {
    report.deadLetters++;
    await lookAt(letter);
  }
  async function lookAt(letter: DeadLetter): Promise<void> {
    const taskId = ownTaskId(letter);
    const read = taskId === undefined ? undefined : await ledger.get(taskId, CALL_TIMEOUT_MS);
    if (read && 'unanswered' in read)
      throw new LeaseholdError('unavailable', 'The ledger did not answer; sweep again.', { cause: read.error });
    const record = read?.record;
    if (!read || !record) {
      report.unrecorded++;
      report.unrecordedLetters.push({ messageId: letter.messageId, reason: letter.reason });
      return;
    }
    if (record.state === 'settled' && record.next) {
      if (options.dryRun || !parts.broker || (await parts.broker.sendFollowUps(record)))
        report.followUps.push(record.taskId);
      return;
    }
    if (isTerminal(record.state) || record.state === 'waiting_human') return;
    if (record.state === 'running' && !isLapsed(record, read.now)) report.live.push(record.taskId);
    else if (openEffects(record).length > 0) report.needWorker.push(record.taskId);
    else if (options.dryRun || (await close(record))) report.closed.push(record.taskId);
  }
  async function close(record: TaskRecord): Promise<boolean> {
    const now = await ledger.time(record.taskId, CALL_TIMEOUT_MS);
    if ('unanswered' in now) return false;
    const event = {
      type: 'sweep',
      opId: newOpId(),
      reason: 'its message is in the dead-letter queue',
      retentionMs: parts.retentionMs ?? DEFAULT_RETENTION_MS,
    } as const;
    const outcome = decide(record, event, now);
    if (isRefusal(outcome)) return false;
    // The message lies there already: the broker's half is done.
    const answer = await ledger.put(
      { ...outcome.next, deadLetterSent: true },
      undefined,
      outcome.expect,
      CALL_TIMEOUT_MS,
    );
    return !('unanswered' in answer) && answer.ok;
  }
  const resent = options.dryRun ? [] : await resendApproved(parts, ledger);
  return { lapsed: [...lapsed.values()], ...report, resent };
}

/** What a redrive did. */
export interface RedriveReport {
  /** Tasks that were reopened; messages that had no record went back all the same. */
  readonly reopened: readonly string[];
  /** Messages that were moved back to the queue. */
  readonly moved: number;
  /** Letters that were chosen and not found again, if any: somebody holds them, or a reader that died hides them for a while. */
  readonly missing?: number;
}

/**
 * Lets dead-lettered tasks run again: reopens each in the ledger first, then moves its message back. Killed in between, it can be run again.
 * (A provider's own redrive works as well; for a task that a sweep had closed its message comes back once more first.)
 *
 * @throws LeaseholdError `bad-option` when the broker cannot move messages back: use the provider's own redrive, which works as well.
 */
export async function redriveTasks(
  parts: OperatorParts,
  select: (letter: DeadLetter, taskId: string | undefined) => boolean,
): Promise<RedriveReport> {
  const clock = parts.clock ?? systemClock();
  const ledger = ledgerSession(parts.ledger, clock);
  const { driver } = parts;
  if (!driver?.redrive) {
    throw new LeaseholdError(
      'bad-option',
      "driver: this broker cannot move dead letters back; use the provider's own redrive, which reopens each task as well.",
      {
        field: 'driver',
      },
    );
  }
  const redrive = driver.redrive.bind(driver);
  const reopened: string[] = [];
  const chosen: string[] = [];
  for await (const letter of deadLetters(parts, clock)) {
    const taskId = letter.attributes[TASK_ID_ATTRIBUTE];
    if (!select(letter, taskId)) continue;
    const own = ownTaskId(letter);
    if (own !== undefined && (await reopen(ledger, own))) reopened.push(own);
    chosen.push(letter.messageId);
  }
  let moved = 0;
  for (let at = 0; at < chosen.length; at += REDRIVEN_AT_ONCE) {
    const some = chosen.slice(at, at + REDRIVEN_AT_ONCE);
    moved += await boundedCall(clock, `${driver.name}: redrive`, REDRIVE_TIMEOUT_MS, (signal) => redrive(some, signal));
  }
  const missing = chosen.length - moved;
  return { reopened, moved, ...(missing > 0 && { missing }) };
}

/** The task whose message this is. One that only bore the id of another task is not that task's, which has a message of its own. */
function ownTaskId({ attributes, reason }: DeadLetter): string | undefined {
  return reason === 'task-id-reused' ? undefined : attributes[TASK_ID_ATTRIBUTE];
}

async function reopen(ledger: LedgerSession, taskId: string): Promise<boolean> {
  for (let tries = 0; tries < 5; tries++) {
    const read = await ledger.get(taskId, CALL_TIMEOUT_MS);
    if ('unanswered' in read)
      throw new LeaseholdError('unavailable', 'The ledger did not answer; redrive again.', { cause: read.error });
    if (read.record?.state !== 'dead_lettered') return false;
    const outcome = decide(read.record, { type: 'reopen', opId: newOpId() }, read.now);
    if (isRefusal(outcome)) return false;
    const answer = await ledger.put(outcome.next, undefined, outcome.expect, CALL_TIMEOUT_MS);
    if (!('unanswered' in answer) && answer.ok) return true;
  }
  return false;
}

async function resendApproved(parts: OperatorParts, ledger: LedgerSession): Promise<readonly string[]> {
  const resent: string[] = [];
  if (!parts.broker) return resent;
  for await (const { record, now } of records(ledger, { states: ['queued'] })) {
    if (!keepsMessage(record) || now.earliest - record.updatedAt < RESEND_AFTER_MS) continue;
    if (await parts.broker.resend(record)) resent.push(record.taskId);
  }
  return resent;
}

async function* records(
  ledger: LedgerSession,
  filter: { lapsed?: boolean; states?: readonly ['queued'] },
): AsyncGenerator<{ record: TaskRecord; now: { earliest: number; latest: number } }> {
  let cursor: string | undefined;
  do {
    const page = await ledger.list(
      { ...filter, limit: PAGE, ...(cursor !== undefined && { cursor }) },
      CALL_TIMEOUT_MS,
    );
    for (const record of page.records) yield { record, now: page.now };
    cursor = page.cursor;
  } while (cursor !== undefined);
}

async function* deadLetters(parts: OperatorParts, clock: Clock): AsyncGenerator<DeadLetter> {
  const { driver } = parts;
  if (!driver?.deadLetters) return;
  const read = driver.deadLetters.bind(driver);
  let cursor: string | undefined;
  do {
    const ask = { limit: PAGE, ...(cursor !== undefined && { cursor }) };
    const page = await boundedCall(clock, `${driver.name}: dead letters`, CALL_TIMEOUT_MS, (signal) =>
      read(ask, signal),
    );
    yield* page.letters;
    cursor = page.cursor;
  } while (cursor !== undefined);
}
