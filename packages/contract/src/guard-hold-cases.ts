import assert from 'node:assert/strict';
import type { GuardCase } from './conformance-case.ts';
import { ask, begun, doubts, hold, replays, response, runOut } from './guard-steps.ts';
import { never, pass } from './waiting.ts';

/** Holds: only their bearer may prolong or end them, and one that ran out is never new again. */
export const holdCases: readonly GuardCase[] = [
  {
    name: 'I4: a hold that ran out unfinished is in doubt, never new, however long ago',
    async run(harness) {
      const [store, other] = [await harness.open(), await harness.open()];
      const retentionMs = hold(harness) * 2;
      const held = await begun(store, ask(harness, { retentionMs }));
      await runOut(harness);
      doubts(await other.begin(ask(harness, { retentionMs, token: 2 }), never()), held);
      await pass(harness, retentionMs * 1.2);
      doubts(await store.begin(ask(harness, { retentionMs, token: 3 }), never()), held, 'past its retention');
      assert.deepEqual(await store.begin(ask(harness, { token: 1 }), never()), { stale: 3 });
    },
  },
  {
    name: 'extend keeps a hold in progress from now on, and cannot revive one that ran out',
    async run(harness) {
      const store = await harness.open();
      const holdMs = hold(harness);
      const held = await begun(store, ask(harness));
      for (let beat = 0; beat < 3; beat++) {
        await pass(harness, holdMs * 0.6);
        assert.equal(await store.extend(held, holdMs, never()), true);
      }
      assert.equal(await store.begin(ask(harness), never()), 'in-progress');
      await runOut(harness);
      assert.equal(await store.extend(held, holdMs, never()), false);
      doubts(await store.begin(ask(harness), never()), held);
    },
  },
  {
    name: 'only the bearer of a hold may extend or finish it',
    async run(harness) {
      const store = await harness.open();
      const first = await begun(store, ask(harness));
      const nobody = { ...first, hold: 'nobody' };
      assert.equal(await store.extend(nobody, 60_000, never()), false);
      assert.equal(await store.finish(nobody, response('forged'), never()), false);
      await store.finish(nobody, 'free', never());
      for (const elsewhere of [
        { ...first, key: 'another' },
        { ...first, scope: 'caller/another' },
      ]) {
        assert.equal(await store.extend(elsewhere, 60_000, never()), false);
        assert.equal(await store.finish(elsewhere, response('forged'), never()), false);
      }
      assert.equal(await store.begin(ask(harness), never()), 'in-progress');
      assert.equal(await store.finish(first, 'free', never()), true);
      const second = await begun(store, ask(harness));
      assert.equal(await store.extend(first, 60_000, never()), false, 'extended by the one before');
      assert.equal(await store.finish(first, response('from before'), never()), false, 'finished by the one before');
      await store.finish(first, 'free', never());
      assert.equal(await store.begin(ask(harness), never()), 'in-progress', 'freed by the one before');
      assert.equal(await store.finish(second, response('mine'), never()), true);
      replays(await store.begin(ask(harness), never()), response('mine'));
    },
  },
  {
    name: 'a finished hold stays finished: the first response is the response',
    async run(harness) {
      const store = await harness.open();
      const held = await begun(store, ask(harness));
      assert.equal(await store.finish(held, response('first'), never()), true);
      assert.equal(await store.finish(held, response('first'), never()), true, 'the same again: its answer was lost');
      assert.equal(await store.finish(held, response('second'), never()), false);
      assert.equal(await store.finish(held, 'free', never()), false);
      assert.equal(await store.extend(held, 60_000, never()), false);
      replays(await store.begin(ask(harness), never()), response('first'));
    },
  },
  {
    name: 'a freed key is new again, for any request, while the fence stays',
    async run(harness) {
      const store = await harness.open();
      const held = await begun(store, ask(harness, { token: 4 }));
      assert.equal(await store.finish(held, 'free', never()), true);
      assert.deepEqual(await store.begin(ask(harness, { token: 3 }), never()), { stale: 4 });
      await begun(store, ask(harness, { token: 4, requestHash: 'h2' }));
    },
  },
  {
    name: 'the bearer of a hold in doubt still knows best: its late answer settles the doubt',
    async run(harness) {
      const store = await harness.open();
      const held = await begun(store, ask(harness));
      const freed = await begun(store, ask(harness, { key: 'freed' }));
      await runOut(harness);
      assert.equal(await store.finish(held, response('late'), never()), true);
      replays(await store.begin(ask(harness), never()), response('late'));
      assert.equal(await store.finish(freed, 'free', never()), true);
      await begun(store, ask(harness, { key: 'freed' }));
    },
  },
  {
    name: 'resolve settles a key in doubt with what the receiver’s state says, once, and nothing else',
    async run(harness) {
      const store = await harness.open();
      const request = ask(harness);
      assert.equal(await store.resolve(request, response('invented'), never()), false, 'an unknown key');
      const held = await begun(store, request);
      const lost = await begun(store, ask(harness, { key: 'never happened' }));
      assert.equal(await store.resolve(held, response('too soon'), never()), false, 'a key in progress');
      await runOut(harness);
      assert.equal(await store.resolve(held, response('found'), never()), true);
      assert.equal(await store.resolve(held, 'free', never()), false, 'a key that is settled');
      replays(await store.begin(ask(harness), never()), response('found'));
      assert.equal(await store.finish(held, response('late'), never()), false, 'the bearer comes after the resolution');
      assert.equal(await store.finish(held, 'free', never()), false, 'the bearer would free what was found');
      replays(await store.begin(ask(harness), never()), response('found'));
      assert.equal(await store.resolve(lost, 'free', never()), true);
      const again = await begun(store, ask(harness, { key: 'never happened' }));
      assert.equal(await store.finish(lost, response('late'), never()), false, 'the hold from before the resolution');
      assert.equal(await store.finish(again, response('second'), never()), true);
    },
  },
  {
    name: 'I4: resolve settles the doubt it was asked about, never a later one of the same key',
    async run(harness) {
      const [store, other] = [await harness.open(), await harness.open()];
      const first = await begun(store, ask(harness));
      await runOut(harness);
      doubts(await other.begin(ask(harness), never()), first);
      assert.equal(await store.resolve(first, 'free', never()), true);
      const second = await begun(store, ask(harness));
      await runOut(harness);
      assert.equal(await other.resolve(first, 'free', never()), false, 'a late answer about the first');
      assert.equal(
        await other.resolve(first, response('of the first'), never()),
        false,
        'a late answer about the first',
      );
      doubts(await store.begin(ask(harness), never()), second);
      assert.equal(await other.resolve(second, response('of the second'), never()), true);
      replays(await store.begin(ask(harness), never()), response('of the second'));
    },
  },
];
