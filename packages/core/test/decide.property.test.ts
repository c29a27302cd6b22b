import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { openEffects } from '../src/decide.ts';
import { HISTORY_LENGTH, isTerminal, type EffectRecord, type TaskRecord } from '../src/record.ts';
import { steps, walk, type Transition, type Walked } from './decide-walk.ts';
import { RETENTION_MS } from './task-events.ts';

type Seen = Readonly<Record<string, (transition: Transition) => boolean>>;

/** `broken` finds nothing in any history; the histories as a whole came across each of `seen`, else the rule was not tried. */
function everyHistory(broken: (walked: Walked) => Iterable<string>, seen: Seen, numRuns = 500): void {
  const missing = new Set(Object.keys(seen));
  fc.assert(
    fc.property(steps, (history) => {
      for (const walked of walk(history)) {
        for (const transition of walked.transitions) {
          for (const name of missing) if (seen[name]?.(transition)) missing.delete(name);
        }
        expect([...broken(walked)]).toEqual([]);
      }
    }),
    { numRuns },
  );
  expect([...missing]).toEqual([]);
}

const ofType = (type: string) => (step: Transition) => step.event.type === type;
const becomes = (state: TaskRecord['state']) => (step: Transition) =>
  step.after.state === state && step.before?.state !== state;
const isGrant = ({ after, event }: Transition): boolean => event.type === 'claim' && after.state === 'running';
const hasVerified = (record: TaskRecord): boolean =>
  Object.values(record.effects).some((effect) => effect.status === 'verified');
const effectsOf = (record: TaskRecord | undefined): readonly (readonly [string, EffectRecord])[] =>
  Object.entries(record?.effects ?? {});
const own = (record: TaskRecord, name: string): Partial<EffectRecord> & { readonly colour?: unknown } =>
  new Map(effectsOf(record)).get(name) ?? {};

test('I1: tokens never go back, and no two grants share one', () => {
  everyHistory(
    function* broken({ transitions }) {
      let highest = 0;
      for (const step of transitions) {
        const token = step.after.fencingToken;
        if (token < highest || (isGrant(step) && token === highest)) yield `${highest} -> ${token}`;
        highest = token;
      }
    },
    {
      grant: isGrant,
      takeover: (step) => isGrant(step) && step.before?.state === 'running',
      raised: ofType('raise-token'),
    },
  );
});

test('I2: at most one settle is accepted, under the token that is current, and its receipt says so', () => {
  everyHistory(
    function* broken({ transitions }) {
      const settled = transitions.filter(becomes('settled'));
      if (settled.length > 1) yield 'settled twice';
      for (const { before, after, event } of settled) {
        if (event.type !== 'settle' || event.token !== before?.fencingToken) yield 'settled by another token';
        if (after.settlementReceipt?.token !== before?.fencingToken) yield 'the receipt bears another token';
      }
    },
    { settled: becomes('settled') },
  );
});

test("I7: an owner's write needs a live lease with its own token, and a takeover a lapsed one", () => {
  everyHistory(
    function* broken({ transitions }) {
      for (const { before, event, decision, now } of transitions) {
        if (!before || !decision) continue;
        const expiry = before.leaseExpiresAt ?? 0;
        if ('token' in event) {
          const conditions = 'lease' in decision.expect ? decision.expect.lease : 'none';
          const holds = before.leaseOwner === event.owner && before.fencingToken === event.token;
          if (conditions !== 'live') yield `${event.type} expects ${conditions}`;
          if (before.state !== 'running' || !holds || expiry <= now.latest)
            yield `${event.type} by one who does not hold`;
        } else if (before.state === 'running' && event.type !== 'cancel' && expiry > now.earliest) {
          yield `${event.type} over a lease that may be live`;
        }
      }
    },
    { renewed: ofType('renew'), swept: ofType('sweep') },
  );
});

test('every write is one version, has a name of its own, and keeps what it does not know', () => {
  everyHistory(
    function* broken({ transitions }) {
      const names = new Set<string>();
      for (const { before, after, event } of transitions) {
        if (after.version !== (before?.version ?? 0) + 1) yield `version ${after.version}`;
        if (after.history.length > HISTORY_LENGTH) yield 'a long history';
        if (event.type === 'newer') continue;
        if (after.opId !== event.opId || names.has(event.opId)) yield `name ${after.opId}`;
        names.add(event.opId);
        if (JSON.stringify(after.extra) !== JSON.stringify(before?.extra)) yield 'unknown fields changed';
        for (const [name, effect] of effectsOf(before)) {
          const kept = own(after, name);
          if (kept.key !== effect.key || kept.colour !== own(before as TaskRecord, name).colour) yield `effect ${name}`;
        }
      }
    },
    {
      unknown: ({ before, event }) => event.type !== 'newer' && before?.extra !== undefined,
      again: ({ before, event }) => event.type === 'intend' && !!before && 'colour' in own(before, event.effect),
    },
  );
});

test('no terminal record holds an intended effect, and a verified effect stays verified', () => {
  everyHistory(
    function* broken({ transitions }) {
      for (const { before, after } of transitions) {
        if (isTerminal(after.state) && openEffects(after).length > 0) yield `${after.state} with an intended effect`;
        for (const [name, effect] of effectsOf(before)) {
          const lost = own(after, name).status !== 'verified' || own(after, name).externalId === undefined;
          if (effect.status === 'verified' && lost) yield `${name} is not verified any more`;
        }
      }
    },
    {
      settledWith: (step) => becomes('settled')(step) && hasVerified(step.after),
      verifiedWhileSettling: (step) => becomes('settled')(step) && !!step.before && openEffects(step.before).length > 0,
      closed: (step) => ofType('end-close')(step) && isTerminal(step.after.state),
    },
  );
});

test('terminal states are left by a reopening only, or by the claim of the message that was dead-lettered last', () => {
  everyHistory(
    function* broken({ transitions }) {
      // Messages that were sent again while the task was queued bear the token of that time: none of them may look like a redrive.
      const onTheWay = new Set<number>();
      for (const { before, after, event } of transitions) {
        if (before && isTerminal(before.state) && after.state !== before.state) {
          const redrive = event.type === 'claim' && event.carriedToken === before.fencingToken;
          if (before.state !== 'dead_lettered') yield `${before.state} was left`;
          if (event.type !== 'reopen' && !redrive) yield `left by ${event.type}`;
        }
        if (after.state === 'queued' || after.state === 'waiting_human') onTheWay.add(after.fencingToken);
        const dies = after.state === 'dead_lettered' && before?.state !== 'dead_lettered';
        if (dies && onTheWay.has(after.fencingToken)) yield 'a message from before would reopen the task';
      }
    },
    {
      redriven: (step) => isGrant(step) && step.before?.state === 'dead_lettered',
      reopened: ofType('reopen'),
      exhausted: ({ before, after, event }) =>
        event.type === 'claim' && after.state === 'dead_lettered' && before?.state === 'queued',
    },
  );
});

test('a record holds what its state stands for and nothing else: owner, expiry, receipt, retention, the half of the broker', () => {
  everyHistory(
    function* broken({ transitions }) {
      for (const { after, event } of transitions) {
        const { state } = after;
        if ((after.leaseOwner !== undefined) !== (state === 'running')) yield `${state} with owner ${after.leaseOwner}`;
        if ((after.leaseExpiresAt !== undefined) !== (state === 'running')) yield `${state}: ${after.leaseExpiresAt}`;
        if ((after.settlementReceipt !== undefined) !== (state === 'settled')) yield `the receipt of a ${state} task`;
        if ((after.deadLetterSent !== undefined) !== (state === 'dead_lettered'))
          yield `dead letter of a ${state} task`;
        if ((after.expiresAt !== undefined) !== isTerminal(state)) yield `the retention of a ${state} task`;
        if (!isTerminal(state)) continue;
        if (after.closing || after.cancelRequested || after.retryAt) yield `something left over in a ${state} task`;
        const expected = 'retentionMs' in event ? after.updatedAt + RETENTION_MS : after.expiresAt;
        if (after.expiresAt !== expected) yield 'another retention';
      }
    },
    { cancelled: becomes('cancelled'), dead: becomes('dead_lettered'), waiting: becomes('waiting_human') },
  );
});

test('attempts count grants; failures count lapses, errors and hand-offs without progress, and a reopening forgets them', () => {
  everyHistory(
    function* broken({ transitions }) {
      for (const step of transitions) {
        const { before, after, event } = step;
        if (after.attempt - (before?.attempt ?? 0) !== (isGrant(step) ? 1 : 0)) yield `attempt ${after.attempt}`;
        const failed =
          (event.type === 'claim' && before?.state === 'running') ||
          (event.type === 'release' && event.failure) ||
          (event.type === 'hand-off' && !event.progressed);
        const forgotten = event.type === 'reopen' || (event.type === 'claim' && before?.state === 'dead_lettered');
        const failures = forgotten ? 0 : (before?.failures ?? 0) + (failed ? 1 : 0);
        if (after.failures !== failures) yield `${event.type}: ${after.failures} failures instead of ${failures}`;
        const exhausted = event.type === 'claim' && isGrant(step) && after.failures >= event.attempts;
        if (exhausted && !after.closing) yield 'run beyond its attempts';
      }
    },
    {
      lapse: (step) => isGrant(step) && step.before?.state === 'running',
      drained: ({ event }) => event.type === 'release' && !event.failure,
      stuck: ({ event }) => event.type === 'hand-off' && !event.progressed,
    },
  );
});

test('a closing outlives its closer; under a cancellation nothing starts or settles unless something exists outside', () => {
  everyHistory(
    function* broken({ transitions }) {
      for (const { before, after, event } of transitions) {
        if (!before) continue;
        const exists = hasVerified(after);
        const ends = isTerminal(after.state) || event.type === 'begin-close' || exists;
        if (before.closing && !ends && after.closing !== before.closing) yield 'a closing was forgotten';
        if (before.closing && event.type === 'intend') yield 'an effect was started while the task was being closed';
        const stopped = before.cancelRequested === true || before.closing?.to === 'cancelled';
        if (stopped && !exists && (event.type === 'intend' || event.type === 'settle'))
          yield `${event.type} all the same`;
        if (after.state === 'cancelled' && exists) yield 'what exists was cancelled';
      }
    },
    {
      inherited: (step) => isGrant(step) && step.before?.closing !== undefined && step.after.closing !== undefined,
      requested: ({ after, event }) => event.type === 'cancel' && after.cancelRequested === true,
      goesOn: ({ after, event }) => event.type === 'end-close' && after.state === 'running',
    },
    900,
  );
});

test('every refusal names its cause, says why, and tells those who are to come back when', () => {
  everyHistory(function* broken({ refusals }) {
    for (const { refused, message, waitMs } of refusals) {
      if (message.length < 10) yield `${refused}: ${message}`;
      const waits = refused === 'busy' || refused === 'not-yet';
      if (waits ? !((waitMs ?? 0) > 0) : waitMs !== undefined) yield `${refused} for ${waitMs} ms`;
    }
  }, {});
});
