/** One check removed from the source of core or worker. */
export interface PlantedFault {
  readonly name: string;
  /** The first seed that finds it. */
  readonly seed: number;
  /** Below `packages/`. */
  readonly file: string;
  /** Occurs exactly once. */
  readonly from: string;
  readonly to: string;
}

const core = (file: string): string => `core/src/${file}.ts`;
const worker = (file: string): string => `worker/src/${file}.ts`;

export const PLANTED: readonly PlantedFault[] = [
  // decide
  {
    name: 'a grant keeps the token',
    seed: 4,
    file: core('decide'),
    from: 'fencingToken: record.fencingToken + 1,\n    attempt',
    to: 'fencingToken: Math.max(1, record.fencingToken),\n    attempt',
  },
  {
    name: 'a take-over does not ask whether the lease has lapsed',
    seed: 10,
    file: core('decide'),
    from: "return grant(failed, event, now, { version: record.version, lease: 'lapsed' });",
    to: "return grant(record, event, now, { version: record.version, lease: 'any' });",
  },
  {
    name: 'a lapse is not counted',
    seed: 10,
    file: core('decide'),
    from: 'failures: record.failures + 1, lastError: lapse',
    to: 'lastError: lapse',
  },
  {
    name: 'attempts have no end',
    seed: 10,
    file: core('decide'),
    from: 'if (record.failures >= event.attempts) {',
    to: 'if (record.failures < 0) {',
  },
  {
    name: 'a claim overlooks a cancellation',
    seed: 159,
    file: core('decide'),
    from: 'if (record.cancelRequested && !hasVerified(record)) {\n    return { to:',
    to: 'if (record.version < 0) {\n    return { to:',
  },
  {
    name: 'a claim does not wait for its time',
    seed: 22,
    file: core('decide'),
    from: 'if (record.retryAt !== undefined && record.retryAt > now.earliest) {',
    to: 'if (record.version < 0 && record.retryAt !== undefined) {',
  },
  {
    name: 'a task settles with an open effect',
    seed: 22,
    file: core('decide'),
    from: "case 'settle': {\n      if (openEffects(record).length > 0) return effectOpen(record);",
    to: "case 'settle': {",
  },
  {
    name: 'a closing takes no new token',
    seed: 5,
    file: core('decide'),
    from: 'closing: event.closing, fencingToken: record.fencingToken + 1',
    to: 'closing: event.closing',
  },
  {
    name: 'a cancellation beats an effect that exists',
    seed: 497,
    file: core('decide'),
    from: "if (record.closing.to === 'cancelled' && hasVerified(record)) {\n        return write",
    to: 'if (record.version < 0) {\n        return write',
  },
  {
    name: 'cancelling does not look at open effects',
    seed: 159,
    file: core('decide'),
    from: '  if (openEffects(record).length > 0) {\n    const kept =',
    to: '  if (record.version < 0) {\n    const kept =',
  },
  // record-changes
  {
    name: 'an end keeps the lease',
    seed: 0,
    file: core('record-changes'),
    from: '  leaseOwner: undefined,\n  leaseExpiresAt: undefined,\n',
    to: '',
  },
  {
    name: 'whoever waits for a person loses its message',
    seed: 2,
    file: core('decide'),
    from: 'parked: event.parked,',
    to: '',
  },
  // task-lease
  {
    name: 'the confirmed time counts from the answer',
    seed: 2,
    file: core('task-lease'),
    from: 'this.#confirmedUntil = Math.min(sending.firstAt + leaseMs, shown);',
    to: 'this.#confirmedUntil = this.#clock.monotonic() + leaseMs;',
  },
  {
    name: 'the confirmed time counts from the last sending',
    seed: 12,
    file: core('task-lease'),
    from: 'this.#confirmedUntil = Math.min(sending.firstAt + leaseMs, shown);',
    to: 'this.#confirmedUntil = sending.lastAt + leaseMs;',
  },
  {
    name: 'an own late write is taken for a loss',
    seed: 67,
    file: core('task-lease'),
    from: 'return current.fencingToken === base.fencingToken || (this.#unanswered?.has(current.opId) ?? false);',
    to: 'return false;',
  },
  {
    name: 'an unanswered write is not repeated',
    seed: 39,
    file: core('task-lease'),
    from: 'if (!repeat || !(await this.#pause(tries++))) return { unknown: answer.unanswered };',
    to: 'return { unknown: answer.unanswered };',
  },
  {
    name: 'a late sending stretches the lease',
    seed: 42,
    file: core('task-lease'),
    from: '{ ms: outcome.leaseMs, notBeyond: write.bound + outcome.leaseMs }',
    to: '{ ms: outcome.leaseMs }',
  },
  // claim-task
  {
    name: 'a claim does not know its own write again',
    seed: 130,
    file: core('claim-task'),
    from: 'if (record?.opId === opId) {',
    to: 'if (answer.ok) {',
  },
  {
    name: 'a claim lost to another is taken for granted',
    seed: 7,
    file: core('claim-task'),
    from: 'if (record?.opId === opId) {',
    to: 'if (record) {',
  },
  {
    name: 'a late claim stretches the lease',
    seed: 37,
    file: core('claim-task'),
    from: '{ ms: outcome.leaseMs, notBeyond: first.bound + outcome.leaseMs }',
    to: '{ ms: outcome.leaseMs }',
  },
  {
    name: 'a message that was sent again is refused without looking for its record',
    seed: 4,
    file: core('claim-task'),
    from: 'if (current || looked) return { refused: outcome, record: current };',
    to: 'return { refused: outcome, record: current };',
  },
  // delivery-desk, lease-broker
  {
    name: 'a busy task is acknowledged',
    seed: 10,
    file: core('delivery-desk'),
    from: "return { kind: 'busy', taskId: message.taskId, waitMs: refusal.waitMs ?? 0, held };\n        case 'not-yet'",
    to: "await session.complete(held);\n          return handled('cancelled', message.taskId, true);\n        case 'not-yet'",
  },
  {
    name: 'a dead letter is acknowledged instead of moved',
    seed: 0,
    file: core('delivery-desk'),
    from: "return (await session.reject(held, { reason, description: description.slice(0, 500), attributes })) === 'done';",
    to: "return (await session.complete(held)) === 'done';",
  },
  {
    name: 'a replay leaves its message',
    seed: 12,
    file: core('delivery-desk'),
    from: 'await desk.finishSettled(held, record);\n',
    to: '',
  },
  {
    name: 'a settle is acknowledged whatever the ledger says',
    seed: 22,
    file: core('lease-broker'),
    from: "if (answer === 'unknown' || !('applied' in answer)) return answer;\n      lease.task.announce('task_settled'",
    to: "if (answer === 'unknown' || !('applied' in answer)) { desk.inBackground(session.complete(lease.held)); return answer; }\n      lease.task.announce('task_settled'",
  },
  // effect, read-back
  {
    name: 'a commit starts without looking at ownership again',
    seed: 42,
    file: worker('effect'),
    from: "while (task.ownership() !== 'held') await host.confirmed();",
    to: '',
  },
  {
    name: 'an intended effect is committed again unread',
    seed: 7,
    file: worker('effect'),
    from: '  if (known) {\n    // Intended by any attempt',
    to: '  if (known && host.closing) {\n    // Intended by any attempt',
  },
  // closing, attempt
  {
    name: 'a closing reads nothing back',
    seed: 5,
    file: worker('closing'),
    from: 'if (port.task.carriedFinding(name)) continue;',
    to: "if (!port.task.carriedFinding(name)) port.task.carryFinding(name, { status: 'absent' });\n    continue;",
  },
  {
    name: 'a closing leaves open what it has not asked about',
    seed: 5,
    file: worker('closing'),
    from: 'for (const name of openEffects(port.task.record)) {',
    to: 'for (const name of openEffects(port.task.record).slice(1)) {',
  },
  {
    name: 'a new attempt of a closing task runs its handler',
    seed: 10,
    file: worker('attempt'),
    from: 'if (this.task.record.closing) void this.#conclude();\n    else ',
    to: '',
  },
  // heartbeat
  {
    name: 'no heart beats',
    seed: 47,
    file: worker('heartbeat'),
    from: 'if (!entry.beating) void beat(entry);',
    to: '',
  },
  // bounded-call
  {
    name: 'an error that comes late is left to nobody',
    seed: 57,
    file: core('bounded-call'),
    from: "(error: unknown) => (open ? end(() => reject(error)) : late('error')),",
    to: '(error: unknown) => {\n        if (!open) throw error;\n        end(() => reject(error));\n      },',
  },
];
