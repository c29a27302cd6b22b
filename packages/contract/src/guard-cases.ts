import assert from 'node:assert/strict';
import type { GuardCase } from './conformance-case.ts';
import { ask, begun, hold, replays, response } from './guard-steps.ts';
import { attempt, never, pass, slack } from './waiting.ts';

/** Fence and key in one conditional write. */
const verdictCases: readonly GuardCase[] = [
  {
    name: 'a first request is new, the same one while it runs is in progress, and afterwards it gets the stored response',
    async run(harness) {
      const [store, other] = [await harness.open(), await harness.open()];
      const held = await begun(store, ask(harness));
      assert.equal(await other.begin(ask(harness), never()), 'in-progress');
      const stored = { ...response('opened 中'), body: Uint8Array.from({ length: 256 }, (_, index) => index) };
      assert.equal(await store.finish(held, stored, never()), true);
      replays(await other.begin(ask(harness), never()), stored);
      replays(await store.begin(ask(harness), never()), stored);
    },
  },
  {
    name: 'I4: of 50 requests with one key at once one is new',
    async run(harness) {
      const stores = [await harness.open(), await harness.open()];
      const verdicts = await Promise.all(
        Array.from({ length: 50 }, (_, index) => (stores[index % 2] as (typeof stores)[0]).begin(ask(harness), never())),
      );
      const fresh = verdicts.filter((verdict) => typeof verdict === 'object' && 'new' in verdict);
      assert.equal(fresh.length, 1);
      assert.equal(verdicts.filter((verdict) => verdict === 'in-progress').length, 49);
    },
  },
  {
    name: 'I4: fence and key are checked as one: among racing tokens a lower one is never let in after a higher one',
    async run(harness) {
      const stores = [await harness.open(), await harness.open()];
      const admitted: number[] = [];
      await Promise.all(
        Array.from({ length: 40 }, async (_, index) => {
          const token = ((index * 7) % 40) + 1;
          const store = stores[index % 2] as (typeof stores)[0];
          const verdict = await store.begin(ask(harness, { token, key: `key ${token}` }), never());
          if (typeof verdict === 'object' && 'new' in verdict) admitted.push(token);
          else assert.ok(typeof verdict === 'object' && 'stale' in verdict && verdict.stale > token, JSON.stringify(verdict));
        }),
      );
      assert.ok(admitted.includes(40), 'the highest token is always let in');
      const late = await (stores[0] as (typeof stores)[0]).begin(ask(harness, { token: 39, key: 'late' }), never());
      assert.deepEqual(late, { stale: 40 });
    },
  },
  {
    name: 'a lower token than the highest seen is stale, whatever its key; the same token and a higher one pass',
    async run(harness) {
      const store = await harness.open();
      const held = await begun(store, ask(harness, { token: 5, key: 'a' }));
      await store.finish(held, response('done'), never());
      assert.deepEqual(await store.begin(ask(harness, { token: 4, key: 'b' }), never()), { stale: 5 });
      assert.deepEqual(await store.begin(ask(harness, { token: 4, key: 'a' }), never()), { stale: 5 }, 'a stored response too');
      await begun(store, ask(harness, { token: 5, key: 'c' }));
      await begun(store, ask(harness, { token: 6, key: 'd' }));
      assert.deepEqual(await store.begin(ask(harness, { token: 5, key: 'e' }), never()), { stale: 6 });
      assert.equal(await store.look({ scope: 'caller/task-1', token: 6, key: 'b' }, never()), 'absent', 'a refused key leaves no trace');
    },
  },
  {
    name: 'a higher token counts as seen whatever the answer to its key is',
    async run(harness) {
      const store = await harness.open();
      const scopes = ['in progress', 'finished', 'reused'];
      for (const scope of scopes) {
        const held = await begun(store, ask(harness, { scope, token: 1 }));
        if (scope === 'finished') await store.finish(held, response('done'), never());
        const request = ask(harness, { scope, token: 2, ...(scope === 'reused' ? { requestHash: 'h2' } : {}) });
        const verdict = await store.begin(request, never());
        assert.ok(!(typeof verdict === 'object' && ('new' in verdict || 'stale' in verdict)), JSON.stringify(verdict));
        assert.deepEqual(await store.begin(ask(harness, { scope, token: 1, key: 'other' }), never()), { stale: 2 }, scope);
      }
    },
  },
  {
    name: 'tokens and keys of one scope say nothing about another',
    async run(harness) {
      const store = await harness.open();
      await begun(store, ask(harness, { scope: 'caller/task-1', token: 9 }));
      for (const scope of ['caller/task-2', 'caller/TASK-1', 'other/task-1', '__proto__', 'caller/task-1/k', 'caller/%', '中']) {
        await begun(store, ask(harness, { scope, token: 1 }));
      }
      for (const key of ['K', 'k ', '__proto__', 'constructor', 'a.b', 'é', 'e\u0301']) await begun(store, ask(harness, { token: 9, key }));
    },
  },
  {
    name: 'a request without a token is let in and fences nobody',
    async run(harness) {
      const store = await harness.open();
      const held = await begun(store, ask(harness, { token: undefined }));
      await store.finish(held, response('done'), never());
      replays(await store.begin(ask(harness, { token: undefined }), never()), response('done'));
      await begun(store, ask(harness, { token: 3, key: 'a' }));
      await begun(store, ask(harness, { token: undefined, key: 'b' }));
      assert.deepEqual(await store.begin(ask(harness, { token: 2, key: 'c' }), never()), { stale: 3 });
    },
  },
  {
    name: 'the same key with another request is refused while it runs, in doubt, and afterwards',
    async run(harness) {
      const store = await harness.open();
      const other = ask(harness, { requestHash: 'h2' });
      const held = await begun(store, ask(harness));
      assert.equal(await store.begin(other, never()), 'key-reused', 'while it runs');
      await pass(harness, hold(harness) + slack(harness, hold(harness)));
      assert.equal(await store.begin(other, never()), 'key-reused', 'in doubt');
      assert.equal(await store.finish(held, response('late but true'), never()), true);
      assert.equal(await store.begin(other, never()), 'key-reused', 'afterwards');
      replays(await store.begin(ask(harness), never()), response('late but true'));
    },
  },
];

/** Holds: only their bearer may prolong or end them, and one that ran out is never new again. */
const holdCases: readonly GuardCase[] = [
  {
    name: 'I4: a hold that ran out unfinished is in doubt, never new, however long ago',
    async run(harness) {
      const [store, other] = [await harness.open(), await harness.open()];
      const retentionMs = hold(harness) * 2;
      await begun(store, ask(harness, { retentionMs }));
      await pass(harness, hold(harness) + slack(harness, hold(harness)));
      assert.equal(await other.begin(ask(harness, { retentionMs, token: 2 }), never()), 'in-doubt');
      await pass(harness, retentionMs * 1.2);
      assert.equal(await store.begin(ask(harness, { retentionMs, token: 3 }), never()), 'in-doubt', 'past its retention');
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
      await pass(harness, holdMs + slack(harness, holdMs));
      assert.equal(await store.extend(held, holdMs, never()), false);
      assert.equal(await store.begin(ask(harness), never()), 'in-doubt');
    },
  },
  {
    name: 'only the bearer of a hold may extend or finish it',
    async run(harness) {
      const store = await harness.open();
      const first = await begun(store, ask(harness));
      assert.equal(await store.extend('nobody', 60_000, never()), false);
      assert.equal(await store.finish('nobody', response('forged'), never()), false);
      assert.equal(await store.begin(ask(harness), never()), 'in-progress');
      assert.equal(await store.finish(first, 'free', never()), true);
      const second = await begun(store, ask(harness));
      assert.notEqual(second, first);
      assert.equal(await store.extend(first, 60_000, never()), false, 'extended by the one before');
      assert.equal(await store.finish(first, response('from before'), never()), false, 'finished by the one before');
      assert.equal(await store.finish(first, 'free', never()), false, 'freed by the one before');
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
      await pass(harness, hold(harness) + slack(harness, hold(harness)));
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
      const scope = 'caller/task-1';
      assert.equal(await store.resolve({ scope, key: 'k' }, response('invented'), never()), false, 'an unknown key');
      const held = await begun(store, ask(harness));
      const lost = await begun(store, ask(harness, { key: 'never happened' }));
      assert.equal(await store.resolve({ scope, key: 'k' }, response('too soon'), never()), false, 'a key in progress');
      await pass(harness, hold(harness) + slack(harness, hold(harness)));
      assert.equal(await store.resolve({ scope, key: 'k' }, response('found'), never()), true);
      assert.equal(await store.resolve({ scope, key: 'k' }, 'free', never()), false, 'a key that is settled');
      replays(await store.begin(ask(harness), never()), response('found'));
      assert.equal(await store.finish(held, response('late'), never()), false, 'the bearer comes after the resolution');
      replays(await store.begin(ask(harness), never()), response('found'));
      assert.equal(await store.resolve({ scope, key: 'never happened' }, 'free', never()), true);
      const again = await begun(store, ask(harness, { key: 'never happened' }));
      assert.equal(await store.finish(lost, response('late'), never()), false, 'the hold from before the resolution');
      assert.equal(await store.finish(again, response('second'), never()), true);
    },
  },
];

/** The fenced read-back, and how long things are remembered. */
const lookCases: readonly GuardCase[] = [
  {
    name: 'look tells every state of a key',
    async run(harness) {
      const [store, other] = [await harness.open(), await harness.open()];
      const look = (key: string) => other.look({ scope: 'caller/task-1', token: 1, key }, never());
      assert.equal(await look('k'), 'absent');
      const held = await begun(store, ask(harness));
      assert.equal(await look('k'), 'in-progress');
      await pass(harness, hold(harness) + slack(harness, hold(harness)));
      assert.equal(await look('k'), 'in-doubt');
      await store.finish(held, response('done'), never());
      replays(await look('k'), response('done'));
      const freed = await begun(store, ask(harness, { key: 'freed' }));
      await store.finish(freed, 'free', never());
      assert.equal(await look('freed'), 'absent');
    },
  },
  {
    name: 'I3: a look seals the scope: after the answer “absent” an older owner’s request is stale',
    async run(harness) {
      const [store, other] = [await harness.open(), await harness.open()];
      assert.equal(await store.look({ scope: 'caller/task-1', token: 2, key: 'k' }, never()), 'absent');
      assert.deepEqual(await other.begin(ask(harness, { token: 1 }), never()), { stale: 2 });
      await begun(other, ask(harness, { token: 2 }));
    },
  },
  {
    name: 'a look with a lower token is stale and says the highest',
    async run(harness) {
      const store = await harness.open();
      const held = await begun(store, ask(harness, { token: 7 }));
      await store.finish(held, response('done'), never());
      assert.deepEqual(await store.look({ scope: 'caller/task-1', token: 6, key: 'k' }, never()), { stale: 7 });
      replays(await store.look({ scope: 'caller/task-1', token: 8, key: 'k' }, never()), response('done'));
      assert.deepEqual(await store.begin(ask(harness, { token: 7 }), never()), { stale: 8 });
    },
  },
  {
    name: 'I4: a look and an older request that race leave no gap between them',
    async run(harness) {
      const [store, other] = [await harness.open(), await harness.open()];
      for (let round = 0; round < 20; round++) {
        const scope = `raced ${round}`;
        const begin = () => other.begin(ask(harness, { scope, token: 1 }), never());
        const early = round % 2 ? begin() : undefined;
        const looking = store.look({ scope, token: 2, key: 'k' }, never());
        const [looked, verdict] = await Promise.all([looking, early ?? begin()]);
        const letIn = typeof verdict === 'object' && 'new' in verdict;
        assert.equal(looked === 'absent', !letIn, `looked: ${JSON.stringify(looked)}, begun: ${JSON.stringify(verdict)}`);
      }
    },
  },
  {
    name: 'a stored response is kept for its retention and then forgotten',
    async run(harness) {
      const store = await harness.open();
      const retentionMs = hold(harness) * 2;
      const held = await begun(store, ask(harness, { retentionMs }));
      await pass(harness, hold(harness) / 2);
      await store.finish(held, response('done'), never());
      await pass(harness, retentionMs * 0.8);
      replays(await store.begin(ask(harness, { retentionMs }), never()), response('done'));
      await pass(harness, retentionMs * 0.2 + slack(harness, retentionMs));
      assert.equal(await store.look({ scope: 'caller/task-1', token: 1, key: 'k' }, never()), 'absent');
      await begun(store, ask(harness, { retentionMs }));
    },
  },
  {
    name: 'the highest token outlives every key of its scope',
    async run(harness) {
      const store = await harness.open();
      const retentionMs = hold(harness);
      const long = await begun(store, ask(harness, { token: 1, key: 'long' }));
      await store.finish(long, response('long'), never());
      const short = await begun(store, ask(harness, { token: 5, key: 'short', retentionMs }));
      await store.finish(short, response('short'), never());
      await pass(harness, retentionMs + slack(harness, retentionMs));
      assert.deepEqual(await store.begin(ask(harness, { token: 4, key: 'short' }), never()), { stale: 5 });
      assert.deepEqual(await store.begin(ask(harness, { token: 4, key: 'other' }), never()), { stale: 5 });
      replays(await store.begin(ask(harness, { token: 5, key: 'long' }), never()), response('long'));
    },
  },
  {
    name: 'a request whose signal is aborted beforehand leaves no trace',
    async run(harness) {
      const store = await harness.open();
      const stopped = AbortSignal.abort(new Error('stop'));
      assert.ok('error' in (await attempt(store.begin(ask(harness, { token: 9 }), stopped))), 'an aborted request was answered');
      await begun(store, ask(harness, { token: 1 }));
    },
  },
  {
    name: 'a call after close is refused, a second close is harmless, and the memory outlives both',
    async run(harness) {
      const [store, other] = [await harness.open(), await harness.open()];
      const held = await begun(store, ask(harness));
      await store.finish(held, response('done'), never());
      await store.close();
      await store.close();
      assert.ok('error' in (await attempt(store.begin(ask(harness), never()))), 'a closed store answered');
      replays(await other.begin(ask(harness), never()), response('done'));
    },
  },
];

/** Every promise of a guard store. */
export const guardCases: readonly GuardCase[] = [...verdictCases, ...holdCases, ...lookCases];
