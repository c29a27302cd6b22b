import { expect, test } from 'vitest';
import { virtualClock, type GuardAsk, type StoredResponse } from '@leasehold/core';
import { memoryGuard, memoryGuardState } from '@leasehold/core/memory';

const never = new AbortController().signal;
const ask = (more: Partial<GuardAsk> = {}): GuardAsk => ({
  scope: 's',
  key: 'k',
  hold: 'n1',
  requestHash: 'h',
  holdMs: 100,
  retentionMs: 1_000,
  ...more,
});
const response = (text: string): StoredResponse => ({
  status: 200,
  headers: { a: '1' },
  body: new TextEncoder().encode(text),
});

test('stepping the wall clock ends no hold and no retention', async () => {
  const clock = virtualClock();
  const guard = memoryGuard({ clock });
  await guard.begin(ask(), never);
  clock.stepWall(3_600_000);
  expect(await guard.begin(ask({ hold: 'n2' }), never)).toBe('in-progress');
  await guard.finish(ask(), response('done'), never);
  clock.stepWall(3_600_000);
  expect(await guard.begin(ask(), never)).toEqual({ previous: response('done') });
});

test('a bearer whose answer was lost may finish again in the same words', async () => {
  const guard = memoryGuard({ clock: virtualClock() });
  await guard.begin(ask(), never);
  expect(await guard.finish(ask(), response('done'), never)).toBe(true);
  expect(await guard.finish(ask(), response('done'), never)).toBe(true);
  expect(await guard.finish(ask(), { ...response('done'), status: 201 }, never)).toBe(false);
  expect(await guard.finish(ask(), { ...response('done'), headers: {} }, never)).toBe(false);
});

test('nothing is shared with what a caller holds', async () => {
  const guard = memoryGuard({ clock: virtualClock() });
  await guard.begin(ask(), never);
  const given = response('x');
  await guard.finish(ask(), given, never);
  given.body[0] = 0;
  const shown = (await guard.begin(ask(), never)) as { previous: StoredResponse };
  shown.previous.body[0] = 0;
  expect(await guard.begin(ask(), never)).toEqual({ previous: response('x') });
});

test('the state tells a test what is known of each key', async () => {
  const clock = virtualClock();
  const state = memoryGuardState();
  const guard = memoryGuard({ clock, state });
  await guard.begin(ask({ key: 'doubt', token: 3 }), never);
  await clock.advance(100);
  await guard.begin(ask({ key: 'running' }), never);
  await guard.begin(ask({ key: 'done' }), never);
  await guard.finish(ask({ key: 'done' }), response('x'), never);
  expect(state.keys.map(({ key, state: found }) => `${key} ${found}`)).toEqual([
    'doubt in-doubt',
    'running in-progress',
    'done finished',
  ]);
  expect([state.highest('s'), state.highest('other')]).toEqual([3, undefined]);
  await clock.advance(1_000);
  expect(state.keys.map(({ key }) => key)).toEqual(['doubt', 'running']);
});

test('freed holds are remembered for ten minutes, and then forgotten', async () => {
  const clock = virtualClock();
  const guard = memoryGuard({ clock });
  await guard.finish(ask(), 'free', never);
  await clock.advance(599_999);
  expect(await guard.begin(ask(), never)).toBe('in-progress');
  await clock.advance(1);
  expect(await guard.begin(ask(), never)).toEqual({ new: 'n1' });
});
