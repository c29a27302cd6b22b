import assert from 'node:assert/strict';
import type { GuardCase } from './conformance-case.ts';
import { ask, begun, replays, response, runOut } from './guard-steps.ts';
import { never } from './waiting.ts';

/** Fence and key in one conditional write. */
export const verdictCases: readonly GuardCase[] = [
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
        Array.from({ length: 50 }, (_, index) =>
          (stores[index % 2] as (typeof stores)[0]).begin(ask(harness), never()),
        ),
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
          else
            assert.ok(
              typeof verdict === 'object' && 'stale' in verdict && verdict.stale > token,
              JSON.stringify(verdict),
            );
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
      assert.deepEqual(
        await store.begin(ask(harness, { token: 4, key: 'a' }), never()),
        { stale: 5 },
        'a stored response too',
      );
      await begun(store, ask(harness, { token: 5, key: 'c' }));
      await begun(store, ask(harness, { token: 6, key: 'd' }));
      assert.deepEqual(await store.begin(ask(harness, { token: 5, key: 'e' }), never()), { stale: 6 });
      assert.equal(
        await store.look({ scope: 'caller/task-1', token: 6, key: 'b' }, never()),
        'absent',
        'a refused key leaves no trace',
      );
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
        assert.deepEqual(
          await store.begin(ask(harness, { scope, token: 1, key: 'other' }), never()),
          { stale: 2 },
          scope,
        );
      }
    },
  },
  {
    name: 'tokens and keys of one scope say nothing about another',
    async run(harness) {
      const store = await harness.open();
      await begun(store, ask(harness, { scope: 'caller/task-1', token: 9 }));
      for (const scope of [
        'caller/task-2',
        'caller/TASK-1',
        'other/task-1',
        '__proto__',
        'caller/task-1/k',
        'caller/%',
        '中',
      ]) {
        await begun(store, ask(harness, { scope, token: 1 }));
      }
      for (const key of ['K', 'k ', '__proto__', 'constructor', 'a.b', 'é', 'e\u0301'])
        await begun(store, ask(harness, { token: 9, key }));
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
      await runOut(harness);
      assert.equal(await store.begin(other, never()), 'key-reused', 'in doubt');
      assert.equal(await store.finish(held, response('late but true'), never()), true);
      assert.equal(await store.begin(other, never()), 'key-reused', 'afterwards');
      replays(await store.begin(ask(harness), never()), response('late but true'));
    },
  },
];
