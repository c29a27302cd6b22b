/** One check removed from the source of core or worker. */
export interface PlantedFault {
  readonly name: string;
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
  { name: 'a grant keeps the token', file: core('decide'), from: 'fencingToken: record.fencingToken + 1,\n    attempt', to: 'fencingToken: Math.max(1, record.fencingToken),\n    attempt' },
  { name: 'a take-over does not ask whether the lease has lapsed', file: core('decide'), from: "return grant(failed, event, now, { version: record.version, lease: 'lapsed' });", to: "return grant(record, event, now, { version: record.version, lease: 'any' });" },
  { name: 'a lapse is not counted', file: core('decide'), from: 'failures: record.failures + 1, lastError: lapse', to: 'lastError: lapse' },
  { name: 'attempts have no end', file: core('decide'), from: 'if (record.failures >= event.attempts) {', to: 'if (record.failures < 0) {' },
  { name: 'a claim overlooks a cancellation', file: core('decide'), from: "if (record.cancelRequested && !hasVerified(record)) {\n    return { to:", to: "if (record.version < 0) {\n    return { to:" },
  { name: 'a claim does not wait for its time', file: core('decide'), from: 'if (record.retryAt !== undefined && record.retryAt > now.earliest) {', to: 'if (record.version < 0 && record.retryAt !== undefined) {' },
  { name: 'owners write without the store judging their lease', file: core('decide'), from: "decision(record, event.opId, now, fields, 'live', leaseMs)", to: "decision(record, event.opId, now, fields, 'any', leaseMs)" },
  { name: 'a task settles with an open effect', file: core('decide'), from: "case 'settle': {\n      if (openEffects(record).length > 0) return effectOpen(record);", to: "case 'settle': {" },
  { name: 'a closing takes no new token', file: core('decide'), from: 'closing: event.closing, fencingToken: record.fencingToken + 1', to: 'closing: event.closing' },
  { name: 'a cancellation beats an effect that exists', file: core('decide'), from: "if (record.closing.to === 'cancelled' && hasVerified(record)) {\n        return write", to: "if (record.version < 0) {\n        return write" },
  { name: 'cancelling does not look at open effects', file: core('decide'), from: "  if (openEffects(record).length > 0) {\n    if (record.cancelRequested)", to: "  if (record.version < 0) {\n    if (record.cancelRequested)" },
  // record-changes
  { name: 'an end keeps the lease', file: core('record-changes'), from: '  leaseOwner: undefined,\n  leaseExpiresAt: undefined,\n', to: '' },
  { name: 'whoever waits for a person loses its message', file: core('record-changes'), from: 'for (const [name, value] of Object.entries(fields)) if (value === undefined) delete next[name];', to: "for (const [name, value] of Object.entries(fields)) if (value === undefined) delete next[name];\n  delete next['parked'];" },
  // task-lease
  { name: 'the confirmed time counts from the answer', file: core('task-lease'), from: 'this.#confirmedUntil = Math.min(sending.firstAt + leaseMs, shown);', to: 'this.#confirmedUntil = this.#clock.monotonic() + leaseMs;' },
  { name: 'the confirmed time counts from the last sending', file: core('task-lease'), from: 'this.#confirmedUntil = Math.min(sending.firstAt + leaseMs, shown);', to: 'this.#confirmedUntil = sending.lastAt + leaseMs;' },
  { name: 'an own late write is taken for a loss', file: core('task-lease'), from: 'return current.fencingToken === base.fencingToken || this.#unanswered.has(current.opId);', to: 'return false;' },
  { name: 'an unanswered write is not repeated', file: core('task-lease'), from: 'if (!repeat || !(await this.#pause(tries++))) return { unknown: answer.unanswered };', to: 'return { unknown: answer.unanswered };' },
  { name: 'a late sending stretches the lease', file: core('task-lease'), from: '{ ms: outcome.leaseMs, notBeyond: write.bound + outcome.leaseMs }', to: '{ ms: outcome.leaseMs }' },
  { name: 'a finding is dropped before it is written', file: core('task-lease'), from: "filter(([name, finding]) => carried.effects?.[name] !== finding)", to: 'filter(() => false)' },
  // claim-task
  { name: 'a claim does not know its own write again', file: core('claim-task'), from: 'if (record?.opId === opId) {', to: 'if (answer.ok) {' },
  { name: 'a claim lost to another is taken for granted', file: core('claim-task'), from: 'if (record?.opId === opId) {', to: 'if (record) {' },
  { name: 'a late claim stretches the lease', file: core('claim-task'), from: '{ ms: outcome.leaseMs, notBeyond: first.bound + outcome.leaseMs }', to: '{ ms: outcome.leaseMs }' },
  { name: 'a message without its record starts over', file: core('claim-task'), from: 'if (current || looked) return { refused: outcome, record: current };', to: 'return { refused: outcome, record: current };' },
  // delivery-desk, lease-broker
  { name: 'an unconfirmed copy is taken for sent', file: core('delivery-desk'), from: "if (!sent || !('messageId' in sent)) return false;\n    await", to: 'await' },
  { name: 'a busy task is acknowledged', file: core('delivery-desk'), from: "return { kind: 'busy', taskId: message.taskId, waitMs: refusal.waitMs ?? 0, held };\n        case 'not-yet'", to: "await session.complete(held);\n          return handled('cancelled', message.taskId, true);\n        case 'not-yet'" },
  { name: 'unsent follow-ups are acknowledged', file: core('delivery-desk'), from: 'if (!outcomes.every((outcome) => outcome.ok)) return;', to: '' },
  { name: 'a dead letter is acknowledged instead of moved', file: core('delivery-desk'), from: "return (await session.reject(held, { reason, description: description.slice(0, 500), attributes })) === 'done';", to: "return (await session.complete(held)) === 'done';" },
  { name: 'a replay leaves its message', file: core('delivery-desk'), from: 'await desk.finishSettled(held, record);\n', to: '' },
  { name: 'the broker is told before the ledger has said yes', file: core('lease-broker'), from: "if (outcome === 'unknown' || !('applied' in outcome)) return outcome;\n    desk.inBackground(then(outcome.applied));", to: "desk.inBackground(then(typeof outcome === 'object' && 'applied' in outcome ? outcome.applied : lease.record));" },
  { name: 'a settle is acknowledged whatever the ledger says', file: core('lease-broker'), from: "if (answer === 'unknown' || !('applied' in answer)) return answer;\n      lease.task.announce('task_settled'", to: "if (answer === 'unknown' || !('applied' in answer)) { desk.inBackground(session.complete(lease.held)); return answer; }\n      lease.task.announce('task_settled'" },
  // effect, read-back
  { name: 'a commit starts without looking at ownership again', file: worker('effect'), from: "while (task.ownership() !== 'held') await host.confirmed();", to: '' },
  { name: 'a commit starts although its intent was not confirmed', file: worker('effect'), from: '  intended(name, intent);\n', to: '' },
  { name: 'an intended effect is committed again unread', file: worker('effect'), from: '  if (known) {\n    // Intended by any attempt', to: '  if (known && host.closing) {\n    // Intended by any attempt' },
  { name: 'a commit starts on an aborted signal', file: worker('effect'), from: 'host.signal.throwIfAborted();\n  let committed', to: 'let committed' },
  { name: 'closing makes what is absent', file: worker('effect'), from: '  if (host.closing) throw new ClosingSignal();\n  return commitAndVerify', to: '  return commitAndVerify' },
  { name: 'what cannot be read back while closing is absent', file: worker('effect'), from: "task.announce('effect_in_doubt', { effect: name });\n  task.carryFinding(name, { status: 'in_doubt' });", to: "task.carryFinding(name, { status: 'absent' });" },
  { name: 'a look that cannot tell says absent', file: worker('read-back'), from: "if (tries > IN_PROGRESS.tries || !(await host.raiseToken(answer.highest))) return { state: 'unknown' };", to: "return { state: 'absent' };" },
  // closing, attempt
  { name: 'a closing reads nothing back', file: worker('closing'), from: 'if (port.task.carriedFinding(name)) continue;', to: "if (!port.task.carriedFinding(name)) port.task.carryFinding(name, { status: 'absent' });\n    continue;" },
  { name: 'a closing leaves open what it has not asked about', file: worker('closing'), from: 'for (const name of openEffects(port.task.record)) {', to: 'for (const name of openEffects(port.task.record).slice(1)) {' },
  { name: 'an attempt does not end when its lease is lost', file: worker('attempt'), from: 'if (task.lost) this.#loseWith(task.lost);\n', to: 'if (task.lost) return;\n' },
  { name: 'a permanent error is dead-lettered over an open effect', file: worker('attempt'), from: "if (to === 'dead-lettered' && open.length === 0) {", to: "if (to === 'dead-lettered') {" },
  { name: 'a settled effect is not released after a cancellation lost', file: worker('attempt'), from: "if (this.port.task.record.state !== 'running') return to;", to: 'if (this.startedAt >= 0) return to;' },
  { name: 'a new attempt of a closing task runs its handler', file: worker('attempt'), from: 'return this.port.task.record.closing ? await this.#runClosing() : await this.#runHandler();', to: 'return await this.#runHandler();' },
  // heartbeat
  { name: 'no heart beats', file: worker('heartbeat'), from: 'if (!entry.beating) void beat(entry);', to: '' },
  { name: 'a missed beat is never repeated', file: worker('heartbeat'), from: "    schedule(entry, true);\n    arm();", to: "    if (result !== 'held') return;\n    schedule(entry, true);\n    arm();" },
  { name: 'nobody asks for a confirmation that is waited for', file: worker('heartbeat'), from: 'if (!entry || entry.beating) return;', to: 'if (entry || !entries) return;' },
];
