import assert from 'node:assert/strict';
import type { GuardCase } from './conformance-case.ts';
import { ask, begun, doubts, hold, replays, response, runOut } from './guard-steps.ts';
import { never, pass } from './waiting.ts';

/** Lost answers: a call that is sent again in the same words comes to the same. */
export const repeatCases: readonly GuardCase[] = [
  {
    name: 'a begin that is sent again while its hold stands is new again, for it and for nobody else',
    async run(harness) {
      const [store, other] = [await harness.open(), await harness.open()];
      const request = ask(harness);
      const held = await begun(store, request);
      await begun(other, request);
      assert.equal(await other.begin(ask(harness), never()), 'in-progress');
      await begun(store, request);
      assert.equal(await store.finish(held, response('once'), never()), true);
      replays(await other.begin(request, never()), response('once'));
    },
  },
  {
    name: 'a begin that is sent twice at once is new both times and takes one hold',
    async run(harness) {
      const [store, other] = [await harness.open(), await harness.open()];
      const request = ask(harness);
      await Promise.all([begun(store, request), begun(other, request), begun(store, request)]);
      assert.equal(await store.finish(request, response('once'), never()), true);
      replays(await other.begin(ask(harness), never()), response('once'));
    },
  },
  {
    name: 'I7: a begin that is sent again prolongs nothing, and cannot revive its hold once that ran out',
    async run(harness) {
      const store = await harness.open();
      const [holdMs, request] = [hold(harness), ask(harness)];
      const held = await begun(store, request);
      await pass(harness, holdMs * 0.6);
      await begun(store, request);
      await runOut(harness, holdMs * 0.4);
      doubts(await store.begin(request, never()), held);
      doubts(await store.begin(ask(harness), never()), held);
    },
  },
  {
    name: 'I3: a begin that is sent again after a higher token was seen is stale, though its hold stands',
    async run(harness) {
      const store = await harness.open();
      const request = ask(harness, { token: 1 });
      const held = await begun(store, request);
      assert.equal(await store.look({ ...request, token: 2 }, never()), 'in-progress');
      assert.deepEqual(await store.begin(request, never()), { stale: 2 });
      assert.equal(await store.finish(held, 'free', never()), true);
      await begun(store, ask(harness, { token: 2 }));
    },
  },
  {
    name: 'a hold that was freed is freed again, also when another has the key or finished it',
    async run(harness) {
      const store = await harness.open();
      const first = await begun(store, ask(harness));
      assert.equal(await store.finish(first, 'free', never()), true);
      assert.equal(await store.finish(first, 'free', never()), true, 'while the key is free');
      assert.equal(await store.finish(first, response('changed its mind'), never()), false);
      const second = await begun(store, ask(harness));
      assert.equal(await store.finish(first, 'free', never()), true, 'while another has the key');
      assert.equal(await store.begin(ask(harness), never()), 'in-progress');
      assert.equal(await store.finish(second, response('second'), never()), true);
      assert.equal(await store.finish(first, 'free', never()), true, 'after another finished');
      assert.equal(await store.finish(second, 'free', never()), false, 'a response that is told is never freed');
      replays(await store.begin(ask(harness), never()), response('second'));
    },
  },
  {
    name: 'a begin that arrives after the finish that gave it up takes nothing',
    async run(harness) {
      const [store, other] = [await harness.open(), await harness.open()];
      const [freed, overtaken] = [ask(harness), ask(harness, { key: 'overtaken', scope: 'caller/new' })];
      const held = await begun(store, freed);
      assert.equal(await store.finish(held, 'free', never()), true);
      assert.equal(await other.begin(freed, never()), 'in-progress', 'sent again and freed in between');
      assert.equal(await store.finish(overtaken, 'free', never()), true, 'it never came to be');
      assert.equal(await other.begin(overtaken, never()), 'in-progress', 'given up before it arrived');
      for (const { key, scope, token = 1 } of [freed, overtaken]) {
        assert.equal(await store.look({ scope, token, key }, never()), 'absent');
        const own = await begun(other, ask(harness, { key, scope, requestHash: 'h2' }));
        assert.equal(await other.finish(own, response('own'), never()), true);
      }
    },
  },
  {
    name: 'a hold that was resolved as free is over for its own late begin too',
    async run(harness) {
      const store = await harness.open();
      const request = ask(harness);
      const held = await begun(store, request);
      await runOut(harness);
      assert.equal(await store.resolve(held, 'free', never()), true);
      assert.equal(await store.begin(request, never()), 'in-progress');
      assert.equal(await store.finish(held, 'free', never()), true);
      await begun(store, ask(harness));
    },
  },
];
