import { recordToWire, type Content, type StoreTime, type TaskRecord } from '@leasehold/core';
import { EXIT } from './failure.ts';
import { needTask } from './find-task.ts';
import { withLedger, type StoreOptions } from './open-ledger.ts';
import { plainTable } from './plain-table.ts';
import { timelineOf } from './timeline.ts';
import { counted, moment, plain, shortId, spell } from './wording.ts';

/** `leasehold inspect` */
export async function inspectCommand(
  name: string,
  options: StoreOptions & { readonly json?: boolean },
): Promise<number> {
  const { record, now } = await withLedger(options, async ({ ledger, client }) => {
    const found = await needTask(client, name);
    const answer = await ledger.get(found.taskId, new AbortController().signal);
    return { record: answer.record ?? found, now: answer.now };
  });
  process.stdout.write(options.json ? `${JSON.stringify(recordToWire(record))}\n` : `${pageOf(record, now)}\n`);
  return EXIT.ok;
}

function pageOf(record: TaskRecord, now: StoreTime): string {
  const ago = (at: number): string => `${spell(Math.max(0, now.latest - at))} ago`;
  const facts: [string, string][] = [
    ['task', record.taskId],
    ['type', record.taskType],
    ['run', record.agentRunId ?? ''],
    [
      'state',
      `${record.state}${record.cancelRequested ? ' (cancellation requested)' : ''}${record.closing ? ` (closing: ${record.closing.to})` : ''}`,
    ],
    ['stage', `${record.stage}, entered ${ago(record.stageEnteredAt)}`],
    ['owner', record.leaseOwner ?? ''],
    ['lease', leaseOf(record, now)],
    ['grants', `token ${record.fencingToken}, attempt ${record.attempt}, ${counted(record.failures, 'failure')}`],
    [
      'renewals',
      `${record.renewalCount}${record.heartbeatAt === undefined ? '' : `, last heard of ${ago(record.heartbeatAt)}`}`,
    ],
    ['key', record.idempotencyKey],
    ['created', `${moment(record.createdAt)}, ${ago(record.createdAt)}`],
    ['retry at', record.retryAt === undefined ? '' : moment(record.retryAt)],
    ['deadline', record.deadlineAt === undefined ? '' : moment(record.deadlineAt)],
    ['checkpoint', sizeOf(record.checkpoint)],
    ['result', sizeOf(record.result)],
    ['follow-ups', record.next ? `${record.next.length} still to be sent` : ''],
    ['parked', sizeOf(record.parked)],
    ['asked', askedOf(record, ago)],
    ['last error', record.lastError ? `${record.lastError.errorClass}: ${record.lastError.message}` : ''],
    ['kept until', record.expiresAt === undefined ? '' : moment(record.expiresAt)],
  ];
  const known = facts.filter(([, value]) => value !== '').map(([name, value]) => [name, plain(value)]);
  const sections = [plainTable([], known), `timeline\n${indent(timeline(record))}`];
  const effects = effectsOf(record);
  if (effects) sections.push(`effects\n${indent(effects)}`);
  const next = nextStep(record);
  if (next !== undefined) sections.push(`next\n  ${plain(next)}`);
  const receipt = record.settlementReceipt;
  if (receipt) {
    const { externalSystem, externalId, status, token, verifiedAt } = receipt;
    sections.push(
      `receipt\n  ${plain(`${externalSystem} ${externalId}, ${status}, verified ${moment(verifiedAt)} under token ${token}`)}`,
    );
  }
  return sections.join('\n\n');
}

function timeline(record: TaskRecord): string {
  const happenings = timelineOf(record);
  const first = happenings[0]?.at ?? 0;
  const rows = happenings.map(({ at, what, detail }, index) => {
    const next = happenings[index + 1];
    return [`+${spell(at - first)}`, what, plain(detail), next && next.at > at ? `for ${spell(next.at - at)}` : ''];
  });
  return plainTable([], rows);
}

function effectsOf(record: TaskRecord): string | undefined {
  const rows = Object.entries(record.effects).map(([name, effect]) => [
    plain(name),
    effect.status,
    plain(effect.system),
    plain(effect.externalId ?? ''),
    plain(effect.externalStatus ?? ''),
    String(effect.token),
    plain(effect.key),
  ]);
  return rows.length === 0
    ? undefined
    : plainTable(['effect', 'status', 'system', 'id', 'its status', 'token', 'key'], rows);
}

/** What a person has to do of a task that ended in doubt: nothing else gets it going, and redriven as it is it would end so again. */
function nextStep({ taskId, state, effects }: TaskRecord): string | undefined {
  const doubts = Object.entries(effects).filter(([, { status }]) => status === 'in_doubt');
  if (state !== 'dead_lettered' || doubts.length === 0) return undefined;
  const look = doubts.map(([name, { system, key }]) => `look at ${system} whether ${name} with the key ${key} exists`);
  return (
    `${look.join(', and ')}; settle the doubt there, so that its answer is true (the resolve hook of its guard, or its look endpoint); ` +
    `then "leasehold redrive ${shortId(taskId)}", which reads before it writes`
  );
}

/** The last question to a person, and what became of it. */
function askedOf({ state, human }: TaskRecord, ago: (at: number) => string): string {
  const asked = human?.at(-1);
  if (!asked) return '';
  const { question, askedAt, approved, reason, answeredAt } = asked;
  if (approved === undefined)
    return `${question} (${ago(askedAt)}, ${state === 'waiting_human' ? 'still open' : 'not answered'})`;
  const answer = `${approved ? 'approved' : 'rejected'} ${ago(answeredAt ?? askedAt)}`;
  return `${question} (${ago(askedAt)}, ${answer}${reason ? `: ${reason}` : ''})`;
}

function leaseOf(record: TaskRecord, now: StoreTime): string {
  if (record.state !== 'running' || record.leaseExpiresAt === undefined) return '';
  const left = record.leaseExpiresAt - now.earliest;
  return left > 0 ? `${spell(left)} left` : `lapsed ${spell(-left)} ago: the next delivery takes the task over`;
}

/** That there is content, and how much; `--json` shows what is in the record. */
function sizeOf(content: Content | undefined): string {
  if (!content) return '';
  if ('inline' in content) return `${Buffer.byteLength(JSON.stringify(content.inline))} bytes in the record`;
  if ('omitted' in content) return `not kept: ${content.omitted}`;
  return `${content.bytes} bytes ${content.ref === undefined ? 'not kept' : 'in the content store'}, SHA-256 ${content.sha256}`;
}

function indent(text: string): string {
  return text.replaceAll(/^/gm, '  ');
}
