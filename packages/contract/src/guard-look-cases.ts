import assert from 'node:assert/strict';
import type { GuardCase } from './conformance-case.ts';
import { ask, begun, doubts, hold, replays, response, runOut } from './guard-steps.ts';
import { attempt, never, pass } from './waiting.ts';

/** The fenced read-back, and how long things are remembered. */
export const lookCases: readonly GuardCase[] = [
  {
    name: 'look tells every state of a key',
    async run(harness) {
      const [store, other] = [await harness.open(), await harness.open()];
      const look = (key: string) => other.look({ scope: 'caller/task-1', token: 1, key }, never());
      assert.equal(await look('k'), 'absent');
      const held = await begun(store, ask(harness));
      assert.equal(await look('k'), 'in-progress');
      await runOut(harness);
      doubts(await look('k'), held);
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
        assert.equal(
          looked === 'absent',
          !letIn,
          `looked: ${JSON.stringify(looked)}, begun: ${JSON.stringify(verdict)}`,
        );
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
      await runOut(harness, retentionMs * 0.2);
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
      await runOut(harness, retentionMs);
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
      assert.ok(
        'error' in (await attempt(store.begin(ask(harness, { token: 9 }), stopped))),
        'an aborted request was answered',
      );
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
