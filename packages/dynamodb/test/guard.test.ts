import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import fc from 'fast-check';
import type { GuardAsk, GuardStore, StoredResponse } from '@leasehold/core';
import { memoryGuard } from '@leasehold/core/memory';
import { virtualClock } from '@leasehold/core';
import { kinds } from '@leasehold/emulators';
import {
  decideBegin,
  decideExtend,
  decideFinish,
  decideLook,
  decideResolve,
  NO_SCOPE,
  type Decision,
  type GuardScope,
} from '../src/guard-scope.ts';
import { machine, never, type Machine, type Table } from './machine.ts';

let one: Machine;
let table: Table;
beforeAll(async () => {
  one = await machine();
});
afterAll(() => one.close());
beforeEach(async () => {
  table = await one.table({ table: 'guards' });
  one.server.faults.reset();
});
afterEach(() => table.dispose());

const DAY_MS = 86_400_000;
const ask = (more: Partial<GuardAsk> = {}): GuardAsk => ({
  ...{ scope: 's', key: 'k', hold: 'h', token: 1, requestHash: 'r', holdMs: 30_000, retentionMs: DAY_MS },
  ...more,
});
const response = (bytes = 0): StoredResponse => ({
  status: 201,
  headers: { a: 'b' },
  body: new Uint8Array(bytes).fill(7),
});

test('on a clock that is known exactly it decides as the guard in memory does', async () => {
  const key = fc.constantFrom('k', 'l');
  const act = fc.oneof(
    fc.record({
      begin: key,
      token: fc.option(fc.integer({ min: 1, max: 4 }), { nil: undefined }),
      hash: fc.constantFrom('r', 'q'),
    }),
    fc.record({ again: fc.nat(20) }),
    fc.record({ extend: fc.nat(20) }),
    fc.record({ finish: fc.nat(20), say: fc.constantFrom('a', 'b', 'free') }),
    fc.record({ resolve: fc.nat(20), say: fc.constantFrom('a', 'free') }),
    fc.record({ look: key, token: fc.integer({ min: 1, max: 4 }) }),
    fc.record({ pass: fc.constantFrom(1, 400, 999, 1_000, 5_000) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(act, { minLength: 5, maxLength: 40 }), async (acts) => {
      const clock = virtualClock();
      const model = memoryGuard({ clock });
      const asked: GuardAsk[] = [];
      const freed = new Set<string>();
      let scope: GuardScope = NO_SCOPE;
      const now = () => ({ earliest: clock.wall(), latest: clock.wall() });
      const mine = <Answer>({ answer, next }: Decision<Answer>): Answer => {
        scope = next ?? scope;
        return answer;
      };
      const said = (text: string): StoredResponse | 'free' =>
        text === 'free' ? 'free' : { status: 200, headers: {}, body: new TextEncoder().encode(text) };
      const begin = async (request: GuardAsk): Promise<void> => {
        expect(mine(decideBegin(scope, request, now()))).toEqual(await model.begin(request, never()));
      };
      for (const each of acts) {
        if ('begin' in each) {
          const { begin: name, token, hash } = each;
          const { token: _, ...rest } = ask({
            key: name,
            hold: `h${asked.length}`,
            requestHash: hash,
            holdMs: 1_000,
            retentionMs: 5_000,
          });
          const request = token === undefined ? rest : { ...rest, token };
          asked.push(request);
          await begin(request);
          continue;
        }
        if ('pass' in each) {
          clock.block(each.pass);
          continue;
        }
        if ('look' in each) {
          const look = { scope: 's', key: each.look, token: each.token };
          expect(mine(decideLook(scope, look, now()))).toEqual(await model.look(look, never()));
          continue;
        }
        const last = asked.at(-1);
        const of =
          asked[
            ('again' in each
              ? each.again
              : 'extend' in each
                ? each.extend
                : 'finish' in each
                  ? each.finish
                  : each.resolve) % asked.length
          ];
        if (!of || !last) continue;
        // Of a key one freed hold is remembered, the last one, and none beside a hold or a response of somebody else's.
        const remembered = scope.keys.some(({ hold }) => hold === last.hold);
        if ('again' in each) {
          if (remembered || !freed.has(last.hold)) await begin(last);
        } else if ('extend' in each)
          expect(mine(decideExtend(scope, of, 1_000, now()))).toEqual(await model.extend(of, 1_000, never()));
        else if ('finish' in each) {
          if (each.say === 'free') freed.add(of.hold);
          expect(mine(decideFinish(scope, of, said(each.say), now()))).toEqual(
            await model.finish(of, said(each.say), never()),
          );
        } else {
          if (each.say === 'free') freed.add(of.hold);
          expect(mine(decideResolve(scope, of, said(each.say), now()))).toEqual(
            await model.resolve(of, said(each.say), never()),
          );
        }
      }
    }),
    { numRuns: 2_000 },
  );
});

test('where the clock is not exact a hold is in doubt only when certainly over, and is not prolonged from when it may be', () => {
  const { next: held } = decideBegin(NO_SCOPE, ask({ holdMs: 10_000 }), { earliest: 0, latest: 1_000 });
  if (!held) throw new Error('refused');
  const at = (earliest: number) => ({ earliest, latest: earliest + 1_000 });
  expect(decideLook(held, { token: 1, key: 'k' }, at(10_999)).answer).toBe('in-progress');
  expect(decideLook(held, { token: 1, key: 'k' }, at(11_000)).answer).toEqual({ inDoubt: 'h' });
  expect(decideExtend(held, ask(), 10_000, at(9_999)).answer).toBe(true);
  expect(decideExtend(held, ask(), 10_000, at(10_000)).answer).toBe(false);
});

test('what one scope remembers may fill an item and no more; what is over makes room, and nothing else does', async () => {
  const guard = table.guard();
  const begin = (key: string, retentionMs: number) => guard.begin(ask({ key, hold: key, retentionMs }), never());
  for (const key of ['a', 'b', 'c', 'd', 'e', 'f']) {
    expect(await begin(key, key === 'a' ? 60_000 : DAY_MS)).toEqual({ new: key });
    expect(await guard.finish({ scope: 's', key, hold: key }, response(65_536), never())).toBe(true);
  }
  await begin('g', DAY_MS);
  const last = { scope: 's', key: 'g', hold: 'g' };
  await expect(guard.finish(last, response(65_536), never())).rejects.toMatchObject({
    code: 'record-too-large',
    field: 'scope',
  });
  expect(await guard.begin(ask({ key: 'f', hold: 'x' }), never())).toEqual({ previous: response(65_536) });
  await one.time.advance(65_000);
  expect(await guard.finish(last, response(65_536), never())).toBe(true);
  expect(await guard.begin(ask({ key: 'g', hold: 'x' }), never())).toEqual({ previous: response(65_536) });
  // Elsewhere there is room all the while.
  expect(await guard.begin(ask({ scope: 'another' }), never())).toEqual({ new: 'h' });
});

test('a scope is cleaned up after the last it remembers, and never while a hold is open or in doubt', async () => {
  const guard = table.guard();
  const ttl = async (): Promise<number> => Number((await table.item('guard#s'))?.['ttl']?.N) * 1_000 - one.clock.wall();
  await guard.look({ scope: 's', token: 1, key: 'k' }, never());
  expect(await ttl()).toBeGreaterThanOrEqual(30 * DAY_MS);
  await guard.begin(ask({ retentionMs: 60 * DAY_MS }), never());
  expect(await ttl()).toBeNaN();
  await guard.finish(ask(), response(), never());
  expect(await ttl()).toBeGreaterThanOrEqual(60 * DAY_MS);
  expect(await ttl()).toBeLessThan(61 * DAY_MS);
});

test('an end of a hold takes one call in the process that began it, and is right in any other', async () => {
  const [guard, other] = [table.guard(), table.guard()];
  for (const [at, store] of [guard, other, guard].entries()) {
    const hold = { key: `k${at}`, hold: `h${at}` };
    const token = 10 * at;
    await guard.begin(ask({ ...hold, token }), never());
    one.server.faults.reset();
    // Somebody else changes the scope meanwhile: what was remembered is old.
    if (at === 2) await other.look({ scope: 's', token: token + 5, key: 'k' }, never());
    expect(await store.finish(ask(hold), response(at), never())).toBe(true);
    if (at === 0) expect(one.server.faults.log.map(({ operation }) => operation)).toEqual(['PutItem']);
    expect(await other.begin(ask({ ...hold, hold: 'x', token: token + 9 }), never())).toEqual({
      previous: response(at),
    });
  }
});

test('I4: many askers of many keys of one scope at once each get their one hold', async () => {
  const stores: GuardStore[] = [table.guard(), table.guard(), table.guard()];
  const verdicts = await Promise.all(
    Array.from({ length: 24 }, (_, at) =>
      (stores[at % 3] as GuardStore).begin(ask({ key: `k${at % 8}`, hold: `h${at}` }), never()),
    ),
  );
  expect(verdicts.filter((verdict) => typeof verdict === 'object' && 'new' in verdict)).toHaveLength(8);
  expect(verdicts.filter((verdict) => verdict === 'in-progress')).toHaveLength(16);
});

test('a begin that was held up and arrives after it was given up takes nothing', async () => {
  const guard = table.guard();
  await guard.look({ scope: 's', token: 1, key: 'first' }, never());
  one.server.faults.on('PutItem', kinds.applyLater(5_000));
  await expect(guard.begin(ask(), never())).rejects.toMatchObject({ code: 'ECONNRESET' });
  expect(await guard.finish(ask(), 'free', never())).toBe(true);
  await one.time.advance(6_000);
  await one.server.settle();
  expect(await guard.look({ scope: 's', token: 1, key: 'k' }, never())).toBe('absent');
  expect(await guard.begin(ask(), never())).toBe('in-progress');
});

test('an item of another shape under a scope is told of and left alone', async () => {
  const guard = table.guard();
  await table.forge('guard#s', { title: { S: 'somebody else' } });
  await expect(guard.begin(ask(), never())).rejects.toMatchObject({ code: 'record-corrupt' });
  expect(await table.item('guard#s')).toMatchObject({ title: { S: 'somebody else' } });
  await expect(guard.begin(ask({ scope: 'x'.repeat(2_048) }), never())).rejects.toMatchObject({
    code: 'bad-request',
    field: 'scope',
  });
});

test('a look that says absent seals the scope for longer than the retention of the requests before it', async () => {
  const guard = table.guard();
  // A receiver that forgets after a minute has seen the token already.
  await guard.begin(ask({ key: 'other', token: 5, retentionMs: 60_000 }), never());
  await guard.finish({ scope: 's', key: 'other', hold: 'h' }, response(), never());
  const before = Number((await table.item('guard#s'))?.['ttl']?.N);
  expect(await guard.look({ scope: 's', token: 5, key: 'k' }, never())).toBe('absent');
  const after = Number((await table.item('guard#s'))?.['ttl']?.N);
  expect(after - before).toBeGreaterThan((29 * DAY_MS) / 1_000);
  // Once is enough for a while.
  const item = await table.item('guard#s');
  await guard.look({ scope: 's', token: 5, key: 'k' }, never());
  expect(await table.item('guard#s')).toEqual(item);
});
