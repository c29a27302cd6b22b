import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { virtualClock, type HoldId, type StoredResponse } from '@leasehold/core';
import { memoryGuard, memoryGuardState } from '@leasehold/core/memory';

const never = new AbortController().signal;
const RETENTION_MS = 1_000;

type Step = readonly [
  kind: 'begin' | 'look' | 'extend' | 'finish' | 'free' | 'resolve' | 'wait',
  token: number,
  key: number,
  ms: number,
];

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.tuple(
    fc.constantFrom<Step[0]>('begin', 'begin', 'look', 'extend', 'finish', 'free', 'resolve', 'wait'),
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
  const holds: { readonly key: string; readonly hold: HoldId }[] = [];
  /** Keys that may not run, with the time from which they may again. */
  const blocked = new Map<string, number>();
  let highest = 0;
  for (const [at, [kind, token, which, ms]] of script.entries()) {
    const guard = guards[token % 2 === 0 ? 0 : 1];
    const key = `k${which}`;
    const held = holds[ms % (holds.length || 1)];
    const now = clock.monotonic();
    const check = (holdsTrue: boolean, what: string): void =>
      void (holdsTrue || wrong.push(`step ${at}, ${kind}: ${what}`));
    if (kind === 'wait') await clock.advance(ms);
    else if (kind === 'begin' || kind === 'look') {
      const ask = { scope: 's', token, key, requestHash: 'h', holdMs: 100, retentionMs: RETENTION_MS };
      const verdict = kind === 'look' ? await guard.look(ask, never) : await guard.begin(ask, never);
      const name = typeof verdict === 'string' ? verdict : (Object.keys(verdict)[0] ?? '');
      tried.set(name, (tried.get(name) ?? 0) + 1);
      check((name === 'stale') === token < highest, `${name} with token ${token}, highest ${highest}`);
      if (token < highest)
        check(JSON.stringify(verdict) === JSON.stringify({ stale: highest }), JSON.stringify(verdict));
      highest = Math.max(highest, token);
      const free = (blocked.get(key) ?? 0) <= now;
      if (name !== 'stale')
        check((name === 'new' || name === 'absent') === free, `${name} of a key that is free = ${free}`);
      if (typeof verdict === 'object' && 'new' in verdict) {
        blocked.set(key, Infinity);
        holds.push({ key, hold: verdict.new });
      }
    } else if (kind === 'resolve') {
      const free = ms % 2 === 0;
      const settled = await guard.resolve({ scope: 's', key }, free ? 'free' : response(1), never);
      if (settled) check(blocked.get(key) === Infinity, 'a key that was not in doubt');
      if (settled) blocked.set(key, free ? 0 : now + RETENTION_MS);
    } else if (held && kind === 'extend') await guard.extend(held.hold, 1 + ms, never);
    else if (held) {
      const settled = await guard.finish(held.hold, kind === 'free' ? 'free' : response(200 + at), never);
      const own = holds.findLast((other) => other.key === held.key) === held;
      if (settled) check(own && blocked.get(held.key) === Infinity, 'by a hold that is over');
      if (settled) blocked.set(held.key, kind === 'free' ? 0 : now + RETENTION_MS);
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
      .filter(([, times]) => times >= 20)
      .map(([name]) => name)
      .sort(),
  ).toEqual(['absent', 'in-doubt', 'in-progress', 'new', 'previous', 'stale']);
});
