import { grouped, type Evidence, type FaultDone, type Violation } from './evidence.ts';

/** What a process may be descheduled between the library's check and its own note. */
const NOTE_MS = 250;

/** I4: nothing was done twice; ledger and receiver agree on what was done. */
export function effectViolations(evidence: Evidence): Violation[] {
  const { rows, records, plan } = evidence;
  const found: Violation[] = [];
  for (const [meaning, same] of grouped(rows, (row) => row.meaning)) {
    if (same.length > 1)
      found.push({
        of: 'I4',
        taskId: same[0]?.taskId ?? '',
        what: `${meaning}: done ${same.length} times (${idsOf(same)})`,
      });
  }
  for (const [key, same] of grouped(rows, (row) => row.key)) {
    if (new Set(same.map(({ meaning }) => meaning)).size > 1)
      found.push({ of: 'I4', taskId: same[0]?.taskId ?? '', what: `key ${key} stands for two deeds (${idsOf(same)})` });
  }
  const jobs = new Map(plan.tasks.flatMap((task) => withChildren(task)).map((task) => [task.taskId, task.job]));
  const rowsOfKey = grouped(rows, (row) => row.key);
  const vouched = new Set<string>();
  for (const { taskId, state, effects, settlementReceipt } of records.values()) {
    const violation = (what: string): void => void found.push({ of: 'I4', taskId, what });
    for (const [name, { key, status, externalId }] of Object.entries(effects)) {
      const own = rowsOfKey.get(key) ?? [];
      if (status === 'intended') violation(`effect ${name} was never read back`);
      if (status === 'absent' && own.length > 0)
        violation(`effect ${name} is said to be absent, and ${idsOf(own)} exists`);
      if (status !== 'absent') vouched.add(key);
      // A task that is closed by somebody without the handler knows an effect by its key alone.
      const isNamed = externalId !== undefined && externalId !== `key:${key}`;
      if (status === 'verified' && own.length === 0)
        violation(`effect ${name} is said to be verified, and nobody did it`);
      else if (status === 'verified' && isNamed && !own.some(({ id }) => id === externalId))
        violation(`effect ${name} is said to be ${externalId}, and is ${idsOf(own)}`);
    }
    if (state === 'cancelled' && Object.values(effects).some(({ status }) => status === 'verified'))
      violation('it was cancelled although an effect of it exists');
    if (state !== 'settled') continue;
    for (const name of jobs.get(taskId)?.effects ?? []) {
      if (effects[name]?.status !== 'verified') violation(`it is settled without its effect ${name}`);
    }
    const last = jobs.get(taskId)?.effects.at(-1);
    if (last !== undefined && settlementReceipt?.externalId !== effects[last]?.externalId)
      violation(`its receipt names ${settlementReceipt?.externalId}, its effect is ${effects[last]?.externalId}`);
  }
  for (const { id, key, taskId } of rows)
    if (!vouched.has(key)) found.push({ of: 'I4', taskId, what: `${id} exists, and no record vouches for it` });
  return [...found, ...fenceViolations(evidence), ...callViolations(evidence)];
}

function withChildren(
  task: Evidence['plan']['tasks'][number],
): { readonly taskId: string; readonly job: typeof task.job }[] {
  return [
    task,
    ...(task.job.children ?? []).map(({ job }, index) => ({ taskId: `${task.taskId}:next:${index}`, job })),
  ];
}

function idsOf(rows: readonly { readonly id: string }[]): string {
  return rows.map(({ id }) => id).join(', ');
}

/** I3, the receiver's half: once it has told a newer owner that nothing is there, an older one's call does nothing. */
function fenceViolations({ entries }: Evidence): Violation[] {
  const found: Violation[] = [];
  const sealed = new Map<string, number>();
  const receiver = entries.filter(({ who }) => who.startsWith('receiver.')).toSorted((one, other) => one.at - other.at);
  for (const said of receiver) {
    if (said.kind === 'guard' && said.event.name === 'guard_looked' && said.event.state === 'absent') {
      const { scope = '', key = '', token = 0 } = said.event;
      sealed.set(`${scope} ${key}`, Math.max(sealed.get(`${scope} ${key}`) ?? 0, token));
    }
    if (said.kind !== 'applied') continue;
    const highest = sealed.get(`${said.taskId} ${said.key}`) ?? 0;
    if (said.token < highest) {
      const what = `the receiver acted under token ${said.token} after it had answered token ${highest}`;
      found.push({ of: 'I3', taskId: said.taskId, what });
    }
  }
  return found;
}

/** I6: a call starts only while the lease is held, as the library says and as its own writes show. */
function callViolations({ entries, writes, faults }: Evidence): Violation[] {
  const found: Violation[] = [];
  const confirmed = grouped(
    writes.filter(({ answered, leaseMs }) => answered?.answer === 'ok' && leaseMs !== undefined),
    ({ who, taskId, next }) => `${who} ${taskId} ${next.token}`,
  );
  const unanswered = new Set(
    writes
      .filter(({ answered }) => answered?.answer !== 'ok')
      .map(({ who, taskId, next }) => `${who} ${taskId} ${next.token}`),
  );
  const stops = grouped(
    faults.filter(({ kind }) => kind === 'stop'),
    ({ who }) => who,
  );
  for (const said of entries) {
    if (said.kind !== 'call' || stoppedAt(said.at, stops.get(said.who) ?? [])) continue;
    const { who, at, taskId, token, effect, ownership } = said;
    if (ownership !== 'held')
      found.push({ of: 'I6', taskId, what: `effect ${effect} was started by ${who} while the lease was ${ownership}` });
    const key = `${who} ${taskId} ${token}`;
    // Where an answer was lost, only the library knows what it learnt of it later.
    if (unanswered.has(key)) continue;
    const until = Math.max(
      ...(confirmed.get(key) ?? [])
        .filter(({ answered }) => (answered?.at ?? 0) <= at)
        .map(({ sentAt, leaseMs = 0 }) => sentAt + leaseMs),
    );
    if (at > until + NOTE_MS)
      found.push({
        of: 'I6',
        taskId,
        what: `effect ${effect} was started by ${who} ${Math.round(at - until)} ms after its lease was over`,
      });
  }
  return found;
}

/** Stopped between the check and the note of it: the note says nothing. */
function stoppedAt(at: number, stops: readonly FaultDone[]): boolean {
  return stops.some((stop) => at >= stop.at - NOTE_MS && at <= stop.until + NOTE_MS);
}
