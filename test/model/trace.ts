import type { Model } from './model.ts';
import { At, blankState, Call, Closing, Effect, Key, Message, pack, Task, unpack, WORDS, Write } from './state.ts';
import type { State, Who } from './state.ts';

/** A run in words: one line per step, with what it changed. */
export function describePath(model: Model, path: readonly Uint32Array[]): string[] {
  const lines: string[] = [];
  const before = blankState();
  const after = blankState();
  for (const [index, words] of path.entries()) {
    if (index === 0) continue;
    unpack(path[index - 1] as Uint32Array, 0, before);
    unpack(words, 0, after);
    const told = describeParts(before);
    const changes = describeParts(after).filter((part, at) => part !== told[at] && part !== '');
    lines.push(
      `${String(index).padStart(2)}. ${whatHappened(model, before, words)}${changes.length > 0 ? `  [${changes.join('; ')}]` : ''}`,
    );
  }
  return lines;
}

/** The step from a state to the packed one. */
function whatHappened(model: Model, from: State, to: Uint32Array): string {
  const key = new Uint32Array(WORDS);
  let told = '';
  model.successors(from, (next, fault, what, who, about) => {
    if (told !== '') return;
    model.judge(next);
    pack(next, key, 0);
    if (key.every((word, at) => word === to[at])) {
      told = `${fault ? 'FAULT ' : ''}${who === undefined ? '' : `${nameOf(who)} `}${what.replace('%', String(about))}`;
    }
  });
  return told;
}

function describeParts(state: State): string[] {
  const { record, receiver } = state;
  return [
    describeRecord(state),
    ...([0, 1] as const).map((who) => describeWorker(state, who)),
    ...state.calls.map(({ token, at }, slot) =>
      token === 0 ? '' : `call ${slot + 1}: token ${token}, ${nameIn(Call, at)}`,
    ),
    `receiver: highest ${receiver.highest}, key ${nameIn(Key, receiver.key)}, effects ${receiver.effects}`,
    ...state.messages.map(({ at }, index) => `message ${index + 1}: ${nameIn(Message, at)}`),
    record.followed === 1 ? 'follow-ups sent' : '',
  ];
}

function describeRecord({ record }: State): string {
  if (record.state === Task.none) return 'no record';
  const parts = [nameIn(Task, record.state), `token ${record.token}`];
  if (record.state === Task.running) parts.push(`of ${nameOf(record.owner as Who)}`, LEASES[record.lease] as string);
  if (record.effect > 0) parts.push(`effect ${nameIn(Effect, record.effect)}`);
  if (record.failures > 0) parts.push(`failures ${record.failures}`);
  if (record.cancel > 0) parts.push('cancel requested');
  if (record.closing > 0) parts.push(`closing as ${nameIn(Closing, record.closing)}`);
  return `record: ${parts.join(', ')}`;
}

function describeWorker(state: State, who: Who): string {
  const me = state.workers[who];
  const parts = [nameIn(At, me.at)];
  if (me.token > 0 && me.at !== At.claim) parts.push(`token ${me.token}`, TIMES[me.time] as string);
  if (me.unknown > 0) parts.push('unanswered');
  if (me.slept > 0) parts.push('slept');
  if (me.write > 0) parts.push(`${nameIn(Write, me.write)} on its way`);
  if (me.found > 0) parts.push(`found ${nameIn(Effect, me.found)}`);
  if (me.late > 0) parts.push(`${nameIn(Write, me.late)} given up`);
  if (me.stale > 0) parts.push('stale handle');
  return `${nameOf(who)}: ${parts.join(', ')}`;
}

const LEASES: readonly string[] = ['lapsed', 'just lapsed', 'about to lapse', 'live'];
const TIMES: readonly string[] = ['time over', 'in the margin', 'held'];

function nameOf(who: Who): string {
  return who === 0 ? 'A' : 'B';
}

function nameIn(names: Readonly<Record<string, number>>, value: number): string {
  const name = Object.keys(names).find((each) => names[each] === value) ?? String(value);
  return name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
