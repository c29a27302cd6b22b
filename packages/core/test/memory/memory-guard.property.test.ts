import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { virtualClock, type GuardHold, type StoredResponse } from '@leasehold/core';
import { memoryGuard, memoryGuardState } from '@leasehold/core/memory';

const never = new AbortController().signal;
const RETENTION_MS = 1_000;

type Step = readonly [
  kind: 'begin' | 'again' | 'look' | 'extend' | 'finish' | 'free' | 'resolve' | 'wait',
  token: number,
  key: number,
  ms: number,
];

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.tuple(
    fc.constantFrom<Step[0]>('begin', 'begin', 'again', 'look', 'extend', 'finish', 'free', 'resolve', 'wait'),
    fc.nat(5),
    fc.nat(1),
    fc.nat(300),
  ),
  { minLength: 10, maxLength: 60, size: 'max' },
);
const response = (status: number): StoredResponse => ({ status, headers: {}, body: new Uint8Array() });

/** Runs the steps and gives what went wrong; counts the verdicts in `tried`. */
async function play(script: readonly Step[], tried: Map<string, number>): Promise<readonly string[]> {
  const clock = virtualClock();
  const state = memoryGuardState();
  const guards = [memoryGuard({ clock, state }), memoryGuard({ state })] as const;
  const wrong: string[] = [];
  const holds: GuardHold[] = [];
  /** Keys that may not run, with the time from which they may again, and the last hold they ran under. */
  const blocked = new Map<string, { readonly until: number; readonly hold: string }>();
  const freed = new Set<string>();
  let highest = 0;
  for (const [at, [kind, token, which, ms]] of script.entries()) {
    const guard = guards[token % 2 === 0 ? 0 : 1];
    const chosen = holds[ms % (holds.length || 1)];
    const key = `k${which}`;
    const now = clock.monotonic();
    const check = (holdsTrue: boolean, what: string): void =>
      void (holdsTrue || wrong.push(`step ${at}, ${kind}: ${what}`));
    // An old asking that is sent again, or arrives late.
    const again = kind === 'again' ? chosen : undefined;
    if (kind === 'wait') await clock.advance(ms);
    else if (kind === 'begin' || kind === 'look' || again) {
      const one = again ?? { scope: 's', key, hold: `n${at}` };
      const ask = { ...one, token, requestHash: 'h', holdMs: 100, retentionMs: RETENTION_MS };
      const verdict = kind === 'look' ? await guard.look(ask, never) : await guard.begin(ask, never);
      const name = typeof verdict === 'string' ? verdict : (Object.keys(verdict)[0] ?? '');
      tried.set(name, (tried.get(name) ?? 0) + 1);
      if (again) tried.set(`${name} again`, (tried.get(`${name} again`) ?? 0) + 1);
      check((name === 'stale') === token < highest, `${name} with token ${token}, highest ${highest}`);
      if (token < highest)
        check(JSON.stringify(verdict) === JSON.stringify({ stale: highest }), JSON.stringify(verdict));
      highest = Math.max(highest, token);
      const last = blocked.get(one.key);
      const free = (last?.until ?? 0) <= now;
      if (name === 'absent') check(free, 'a key that is not free');
      if (name === 'new' && !again) check(free, 'a key that is not free');
      if (name === 'new' && again) {
        check(free || last?.hold === one.hold, 'the hold of a key that another has');
        check(!freed.has(one.hold), 'a hold that was freed');
      }
      if (!again && name !== 'stale') check((name === 'new' || name === 'absent') === free, `${name} of a free key`);
      if (typeof verdict === 'object' && 'inDoubt' in verdict)
        check(last?.until === Infinity && verdict.inDoubt === last.hold, 'not the last hold');
      if (typeof verdict === 'object' && 'new' in verdict) {
        check(verdict.new === one.hold, 'another hold than was asked for');
        if (!again || free) blocked.set(one.key, { until: Infinity, hold: one.hold });
        if (!again) holds.push(one);
      }
    } else if (chosen && kind === 'extend') await guard.extend(chosen, 1 + ms, never);
    else if (chosen) {
      const freeing = kind === 'free' || (kind === 'resolve' && ms % 2 === 0);
      const outcome = freeing ? 'free' : response(kind === 'resolve' ? 1 : 200 + at);
      const settled =
        kind === 'resolve' ? await guard.resolve(chosen, outcome, never) : await guard.finish(chosen, outcome, never);
      const last = blocked.get(chosen.key);
      const own = last?.hold === chosen.hold && last.until === Infinity;
      if (settled && freeing) freed.add(chosen.hold);
      // Freeing twice is freeing once; only what is open can be settled otherwise.
      if (settled && kind !== 'free') check(own, 'by a hold that is over');
      if (settled && own) blocked.set(chosen.key, { until: freeing ? 0 : now + RETENTION_MS, hold: chosen.hold });
    }
    check((state.highest('s') ?? 0) === highest, `highest is ${state.highest('s')}`);
  }
  return wrong;
}

test('I4: whatever happens, tokens never fall, and a key runs again only when it was freed or forgotten', async () => {
  const tried = new Map<string, number>();
  await fc.assert(
    fc.asyncProperty(steps, async (script) => {
      expect(await play(script, tried)).toEqual([]);
    }),
    { numRuns: 300 },
  );
  expect(
    [...tried]
      .filter(([, times]) => times >= 5)
      .map(([name]) => name)
      .sort(),
  ).toEqual([
    'absent',
    'in-progress',
    'in-progress again',
    'inDoubt',
    'inDoubt again',
    'new',
    'new again',
    'previous',
    'previous again',
    'stale',
    'stale again',
  ]);
});
