import { isTerminal } from '@leasehold/core';
import { grouped, type Evidence, type FaultDone, type Violation } from './evidence.ts';
import { accepted, type Write } from './writes.ts';

type Accepted = Write & { readonly answered: { readonly at: number } };

/** How far apart a process's own notes may be from what they are about. */
const NOTE_MS = 50;
/** How long a process may wait for a core between reading the clock, which the lease is counted from, and noting that it writes. */
const STAMP_MS = 500;

/** I1, I2 and I7 from the writes that the ledger accepted, in the order of their versions. */
export function ledgerViolations(evidence: Evidence): Violation[] {
  const found: Violation[] = [];
  for (const [taskId, writes] of accepted(evidence.writes)) {
    const violation = (of: string, what: string): void => void found.push({ of, what, taskId });
    for (const [index, write] of writes.entries()) {
      const before = writes[index - 1];
      if (!before) continue;
      const [was, is] = [before.next, write.next];
      if (is.version === was.version) violation('ledger', `version ${is.version} was accepted twice`);
      if (is.token < was.token) violation('I1', `the token fell from ${was.token} to ${is.token}`);
      if (is.attempt > was.attempt && is.token <= was.token) violation('I1', `token ${is.token} was granted twice`);
      if (isTerminal(was.state) && is.state !== was.state)
        violation('I2', `it was ${was.state}, and ${is.state} afterwards`);
      if (was.state === 'settled' && is.state === 'settled' && was.receipt?.token !== is.receipt?.token)
        violation('I2', `it was settled under token ${was.receipt?.token} and again under ${is.receipt?.token}`);
    }
    leaseViolations(writes, firstSendings(evidence, taskId), evidence, violation);
    const record = evidence.records.get(taskId);
    const last = writes.at(-1)?.next;
    if (record && last && record.version < last.version)
      violation('ledger', `version ${last.version} was accepted, and the record has ${record.version}`);
  }
  for (const [taskId, events] of grouped(eventsOf(evidence), ({ event }) => event.taskId)) {
    if (taskId === undefined) continue;
    const settles = events.filter(({ event }) => event.name === 'task_settled');
    if (settles.length > 1) found.push({ of: 'I2', taskId, what: `it was settled ${settles.length} times` });
    const tokens = events.filter(({ event }) => event.name === 'task_claimed').map(({ event }) => event.token ?? 0);
    if (new Set(tokens).size < tokens.length)
      found.push({ of: 'I1', taskId, what: `claimed under the tokens ${tokens.join(', ')}` });
    const receipt = evidence.records.get(taskId)?.settlementReceipt;
    if (settles.some(({ event }) => event.token !== receipt?.token))
      found.push({
        of: 'I2',
        taskId,
        what: `its receipt is of token ${receipt?.token}, settled was ${settles[0]?.event.token}`,
      });
  }
  return [...found, ...refusedWriters(evidence)];
}

function eventsOf({ entries }: Evidence): Extract<Evidence['entries'][number], { kind: 'event' }>[] {
  return entries.filter((entry) => entry.kind === 'event');
}

/** When each write was first sent: repeated after a lost answer, it bears the same nonce. */
function firstSendings({ writes }: Evidence, taskId: string): ReadonlyMap<string, number> {
  const first = new Map<string, number>();
  for (const { taskId: of, next, sentAt } of writes) {
    if (of === taskId) first.set(next.opId, Math.min(first.get(next.opId) ?? Infinity, sentAt));
  }
  return first;
}

/** I7, judged by the machine's clock alone: no write under a lease that was over, no takeover of one that was not. */
function leaseViolations(
  writes: readonly Accepted[],
  firstSent: ReadonlyMap<string, number>,
  { timing, faults }: Evidence,
  violation: (of: string, what: string) => void,
): void {
  for (const [index, write] of writes.entries()) {
    if (write.expect !== 'live' && write.expect !== 'lapsed') continue;
    const stamp = stampBefore(writes, index);
    if (!stamp) continue;
    const { leaseMs = 0 } = stamp;
    if (write.expect === 'live') {
      const lateMs = write.sentAt - (stamp.answered.at + leaseMs);
      if (lateMs > timing.clockErrorMs + NOTE_MS)
        violation('I7', `version ${write.next.version} was accepted ${Math.round(lateMs)} ms after the lease was over`);
    } else {
      const earlyMs = (firstSent.get(stamp.next.opId) ?? stamp.sentAt) + leaseMs - write.answered.at;
      if (earlyMs > timing.clockErrorMs + STAMP_MS && !stoppedWhile(stamp, faults))
        violation('I7', `token ${write.next.token} was granted ${Math.round(earlyMs)} ms before the lease was over`);
    }
  }
}

/** Stopped between reading the clock and writing: the lease is shorter than the note says. */
function stoppedWhile({ who, sentAt }: Write, faults: readonly FaultDone[]): boolean {
  return faults.some(
    (fault) => fault.kind === 'stop' && fault.who === who && sentAt >= fault.at && sentAt <= fault.until + STAMP_MS,
  );
}

/** The write that stamped the lease in force before write `index`, if no write between the two is missing here. */
function stampBefore(writes: readonly Accepted[], index: number): Accepted | undefined {
  for (let at = index - 1; at >= 0; at--) {
    const [write, after] = [writes[at], writes[at + 1]];
    if (!write || !after || after.next.version !== write.next.version + 1) return undefined;
    if (write.leaseMs !== undefined) return write;
  }
  return undefined;
}

/** I3, the ledger's half: whoever was shown that a task is another's sends nothing more under that token. */
function refusedWriters({ writes }: Evidence): Violation[] {
  const found: Violation[] = [];
  const lost = new Map<string, number>();
  for (const { who, taskId, next, expect, answered } of writes) {
    if (expect !== 'live' || answered?.answer !== 'refused' || !answered.shown) continue;
    const { shown } = answered;
    const isOwn =
      shown.opId === next.opId || (shown.state === 'running' && shown.owner?.startsWith(`${who}/`) === true);
    const key = `${who} ${taskId} ${next.token}`;
    if (!isOwn) lost.set(key, Math.min(lost.get(key) ?? Infinity, answered.at));
  }
  for (const { who, taskId, next, expect, sentAt } of writes) {
    const since = lost.get(`${who} ${taskId} ${next.token}`);
    if (expect === 'live' && since !== undefined && sentAt > since)
      found.push({ of: 'I3', taskId, what: `${who} wrote under token ${next.token} after it had been refused` });
  }
  return found;
}
