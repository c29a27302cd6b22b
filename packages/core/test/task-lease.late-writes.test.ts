import { describe, expect, test } from 'vitest';
import { decide, isRefusal } from '../src/decide.ts';
import { isTerminal, type TaskRecord } from '../src/record.ts';
import type { ApplyOutcome, OwnersRequest, TaskLease } from '../src/task-lease.ts';
import { bench, finish, granted, KINDS, REQUESTS, TIMING, type Bench } from './lease-bench.ts';
import { ANSWER_LOST, LOST, type SlowLedger } from './slow-ledger.ts';
import { cancel } from './task-events.ts';

type Kind = OwnersRequest['type'];

/** What shows in a record that a write of this kind was applied. */
const SHOWS: Readonly<Record<Kind, (record: TaskRecord) => boolean>> = {
  renew: (record) => record.renewalCount > 0,
  intend: (record) => record.effects['create']?.status === 'intended',
  checkpoint: (record) => record.checkpoint !== undefined,
  settle: (record) => record.state === 'settled',
  release: (record) => record.state === 'queued',
  'hand-off': (record) => record.state === 'queued',
  'dead-letter': (record) => record.state === 'dead_lettered',
  'begin-close': (record) => record.closing !== undefined,
  'end-close': (record) => record.state === 'dead_lettered',
  'raise-token': (record) => record.fencingToken >= 8,
  'ask-human': (record) => record.state === 'waiting_human',
};

/** A lease on which a write of any of these kinds would apply. */
async function ready({ claimAs }: Bench, ...kinds: readonly Kind[]): Promise<TaskLease> {
  const lease = await granted(claimAs('svc/a#1'));
  if (kinds.includes('end-close')) await lease.apply(REQUESTS['begin-close'], { repeat: false });
  return lease;
}

/** What is wrong with what landed in the store. */
function* faults(ledger: SlowLedger): Iterable<string> {
  let settles = 0;
  for (const { before, after } of ledger.landings) {
    if (!after) continue;
    if (after.version !== (before?.version ?? 0) + 1) yield `version ${after.version}`;
    if (after.fencingToken < (before?.fencingToken ?? 0)) yield `token ${after.fencingToken}`;
    if (before && isTerminal(before.state)) yield `${before.state} became ${after.state}`;
    if (after.state === 'settled') settles++;
  }
  if (settles > 1) yield 'settled twice';
}

describe('a write that was applied and whose answer was lost is recognised', () => {
  test.each(KINDS)('%s', async (kind) => {
    const { clock, ledger, ...rest } = bench();
    const lease = await ready({ clock, ledger, ...rest }, kind);
    const { version } = lease.record;
    ledger.travels.put.push(ANSWER_LOST);
    const outcome = await finish(clock, lease.apply(REQUESTS[kind], { repeat: true }));
    expect(outcome).toEqual({ applied: ledger.record('task-1') });
    expect(SHOWS[kind](lease.record)).toBe(true);
    expect(lease.record.version).toBe(version + 1);
    expect(lease.lost).toBeUndefined();
    expect(clock.pending).toBe(0);
  });
});

describe('a write that was lost on its way is sent again under the same name', () => {
  test.each(KINDS)('%s', async (kind) => {
    const { clock, ledger, ...rest } = bench();
    const lease = await ready({ clock, ledger, ...rest }, kind);
    const before = ledger.sent.length;
    ledger.travels.put.push(LOST, LOST);
    const outcome = await finish(clock, lease.apply(REQUESTS[kind], { repeat: true }));
    expect(outcome).toEqual({ applied: ledger.record('task-1') });
    const sent = ledger.sent.slice(before);
    expect(sent.map(({ next }) => next.opId)).toEqual([lease.record.opId, lease.record.opId, lease.record.opId]);
    // However late it lands, it never stretches the lease beyond what its first sending asked for.
    const bounds = sent.map(({ lease: stamp }) => stamp?.notBeyond);
    expect(new Set(bounds).size).toBe(1);
  });
});

/** When the abandoned write lands: it is abandoned after 10 s, the next one leaves at 15 s and takes 2 s. */
const MOMENTS = {
  'before the next is sent': 12_000,
  'while the next is on its way': 16_000,
  'after the next was answered': 20_000,
  'after the lease was over and taken': 100_000,
} as const;
const LASTING: readonly Kind[] = ['renew', 'intend', 'checkpoint', 'begin-close', 'raise-token'];

async function abandonedThenNext(first: Kind, next: Kind, landsAfterMs: number): Promise<string[]> {
  const set = bench();
  const { clock, ledger, claimAs } = set;
  const lease = await ready(set, first, next);
  const wrong: string[] = [];
  const opened = ledger.landings.length;
  ledger.travels.put.push({ upMs: landsAfterMs, downMs: 0 });
  const start = clock.monotonic();
  const abandoned = await finish(clock, lease.apply(REQUESTS[first], { repeat: false }));
  // Not every kind applies to a task that is being closed; what was not sent cannot be late.
  if ('refused' in abandoned) return [];
  if (!('unknown' in abandoned)) wrong.push(`abandoned, and yet ${JSON.stringify(abandoned)}`);
  if (lease.ownership() === 'held') wrong.push('held although a write is on its way');
  const taken = landsAfterMs > TIMING.leaseMs;
  if (taken) await clock.advance(TIMING.leaseMs);
  const other = taken ? await claimAs('svc/b#2') : undefined;
  await clock.advance(Math.max(0, start + 15_000 - clock.monotonic()));
  ledger.travels.put.push({ upMs: 2_000, downMs: 0 });
  const outcome: ApplyOutcome = await finish(clock, lease.apply(REQUESTS[next], { repeat: true }));
  const landed = ledger.landings.slice(opened).some(({ after }) => after && SHOWS[first](after));
  if ('applied' in outcome) {
    if (JSON.stringify(outcome.applied) !== JSON.stringify(ledger.record('task-1')))
      wrong.push('applied, but not there');
    if (!SHOWS[next](outcome.applied)) wrong.push('applied, but without effect');
    const kept = isTerminal(outcome.applied.state) || SHOWS[first](outcome.applied);
    if (landed && LASTING.includes(first) && !kept) wrong.push('the abandoned write was applied, then undone');
  } else if ('lost' in outcome) {
    if (lease.ownership() !== 'lost') wrong.push('lost, and yet owned');
    if (!taken && LASTING.includes(first)) wrong.push(`lost over an own write: ${outcome.lost}`);
  } else if ('unknown' in outcome) {
    wrong.push('unknown, although it was answered');
  }
  const sent = ledger.sent.length;
  const over = lease.lost !== undefined || lease.ended;
  await clock.advance(30_000);
  if (over) {
    await lease.apply(REQUESTS[next], { repeat: true });
    if (ledger.sent.length > sent) wrong.push('written after the end');
  }
  if (other && 'lease' in other && other.lease.ownership() !== 'held')
    wrong.push('the new owner lost the task to the old one');
  return [...wrong, ...faults(ledger)];
}

describe.each(Object.entries(MOMENTS))('an abandoned write that lands %s', (_, landsAfterMs) => {
  test.each(KINDS)('%s: whatever is written next comes out right', async (first) => {
    const wrong = new Map<string, string[]>();
    for (const next of KINDS) {
      const found = await abandonedThenNext(first, next, landsAfterMs);
      if (found.length > 0) wrong.set(next, found);
    }
    expect(Object.fromEntries(wrong)).toEqual({});
  });
});

describe('an outsider writes in between', () => {
  async function cancelBy({ session }: Bench): Promise<TaskRecord> {
    const read = await session.get('task-1', 1_000);
    if ('unanswered' in read) throw read.error;
    const outcome = decide(read.record, cancel(), read.now);
    if (isRefusal(outcome)) throw new Error(outcome.message);
    const answer = await session.put(outcome.next, undefined, outcome.expect, 1_000);
    if ('unanswered' in answer || !answer.ok) throw new Error('the cancellation was not written');
    return answer.record;
  }

  test('a cancellation that has to wait for an open effect is rebased over, and seen', async () => {
    const set = bench();
    const lease = await granted(set.claimAs('svc/a#1'));
    await lease.apply(REQUESTS.intend, { repeat: true });
    await cancelBy(set);
    expect(await lease.apply(REQUESTS.renew, { repeat: false })).toMatchObject({ applied: { cancelRequested: true } });
    expect(lease.ownership()).toBe('held');
  });

  test('the same over an own write that landed late', async () => {
    const set = bench();
    const { clock, ledger } = set;
    const lease = await granted(set.claimAs('svc/a#1'));
    await lease.apply(REQUESTS.intend, { repeat: true });
    ledger.travels.put.push({ upMs: 11_000, downMs: 0 });
    await finish(clock, lease.apply(REQUESTS.checkpoint, { repeat: false }));
    await clock.advance(2_000);
    await cancelBy(set);
    const outcome = await lease.apply(REQUESTS.renew, { repeat: false });
    expect(outcome).toMatchObject({ applied: { cancelRequested: true, checkpoint: { inline: { page: 3 } } } });
  });

  test('a cancellation that applies at once ends the right: the next write is refused, and so is every later one', async () => {
    const set = bench();
    const lease = await granted(set.claimAs('svc/a#1'));
    await cancelBy(set);
    expect(lease.ownership()).toBe('held');
    expect(await lease.apply(REQUESTS.renew, { repeat: false })).toMatchObject({ lost: 'cancelled' });
    const sent = set.ledger.sent.length;
    for (const kind of KINDS)
      expect(await lease.apply(REQUESTS[kind], { repeat: true })).toMatchObject({ lost: 'cancelled' });
    expect(set.ledger.sent.length).toBe(sent);
  });
});
