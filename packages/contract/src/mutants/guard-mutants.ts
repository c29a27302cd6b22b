import type { GuardAsk, GuardStore, HoldId } from '@leasehold/core';
import type { GuardHarness } from '../conformance-case.ts';
import type { Mutant } from './mutant.ts';
import { guardHarness } from './memory-harness.ts';

const broken = (wrong: string, fails: readonly string[], change: (store: GuardStore) => Partial<GuardStore>) => ({
  wrong,
  fails,
  make: () => guardHarness((store) => ({ ...store, ...change(store) })),
  capabilities: undefined,
});
const asking = (store: GuardStore, map: (ask: GuardAsk) => GuardAsk): Partial<GuardStore> => ({
  begin: (ask, signal) => store.begin(map(ask), signal),
});
const never = (): AbortSignal => new AbortController().signal;

/** Guard drivers with one thing wrong each. */
export const guardMutants: readonly Mutant<GuardHarness, undefined>[] = [
  broken('keeps responses as text', ['a first request is new'], (store) => ({
    finish: (hold, response, signal) => {
      if (response === 'free') return store.finish(hold, response, signal);
      const body = new TextEncoder().encode(new TextDecoder().decode(response.body));
      return store.finish(hold, { ...response, body }, signal);
    },
  })),
  broken('does not store responses', ['a first request is new', 'look tells every state'], (store) => ({
    finish: (hold, _response, signal) => store.finish(hold, 'free', signal),
  })),
  broken('looks at the key before it takes it, in two steps', ['I4: of 50 requests'], (store) => ({
    begin: async (ask, signal) => {
      const seen = await store.look({ ...ask, token: ask.token ?? 0 }, signal);
      await new Promise((resolve) => setImmediate(resolve));
      return seen === 'absent' ? { new: `own ${Math.random()}` } : store.begin(ask, signal);
    },
  })),
  broken('takes a key before it looks at the fence', ['a lower token than the highest'], (store) => ({
    begin: async (ask, signal) => {
      const { token, ...unfenced } = ask;
      const verdict = await store.begin(unfenced, signal);
      if (token === undefined) return verdict;
      const fenced = await store.look({ ...ask, token }, signal);
      return typeof fenced === 'object' && 'stale' in fenced ? fenced : verdict;
    },
  })),
  broken(
    'has no fence',
    [
      'a lower token',
      'I4: fence and key',
      'I3: a look seals',
      'the highest token outlives',
      'a look with a lower token',
    ],
    (store) => asking(store, ({ token: _, ...ask }) => ask),
  ),
  broken('raises the fence for new keys only', ['a higher token counts as seen'], (store) => ({
    begin: async (ask, signal) => {
      const { token, ...unfenced } = ask;
      const verdict = await store.begin(unfenced, signal);
      if (token !== undefined && typeof verdict === 'object' && 'new' in verdict)
        await store.look({ ...ask, token }, signal);
      return verdict;
    },
  })),
  broken('has one fence for all', ['tokens and keys of one scope'], (store) =>
    asking(store, (ask) => ({ ...ask, scope: 'all', key: `${ask.scope} ${ask.key}` })),
  ),
  broken('has keys without case', ['tokens and keys of one scope'], (store) =>
    asking(store, (ask) => ({ ...ask, key: ask.key.toLowerCase() })),
  ),
  broken('takes no token for the lowest', ['a request without a token'], (store) =>
    asking(store, (ask) => ({ token: 0, ...ask })),
  ),
  broken('does not compare requests', ['the same key with another request'], (store) =>
    asking(store, (ask) => ({ ...ask, requestHash: 'same' })),
  ),
  broken('forgets holds that ran out', ['I4: a hold that ran out'], (store) => ({
    begin: async (ask, signal) => {
      const verdict = await store.begin(ask, signal);
      if (verdict !== 'in-doubt') return verdict;
      await store.resolve(ask, 'free', signal);
      return store.begin(ask, signal);
    },
  })),
  broken('says it extended, and did not', ['extend keeps a hold'], () => ({ extend: async () => true })),
  broken('extends what ran out', ['extend keeps a hold'], (store) => {
    const asks = new Map<HoldId, GuardAsk>();
    return {
      begin: async (ask, signal) => {
        const verdict = await store.begin(ask, signal);
        if (typeof verdict === 'object' && 'new' in verdict) asks.set(verdict.new, ask);
        return verdict;
      },
      extend: async (hold, holdMs, signal) => (await store.extend(hold, holdMs, signal)) || asks.has(hold),
    };
  }),
  broken('takes any hold for the bearer’s', ['only the bearer'], (store) => {
    let latest: HoldId = '';
    return {
      begin: async (ask, signal) => {
        const verdict = await store.begin(ask, signal);
        if (typeof verdict === 'object' && 'new' in verdict) latest = verdict.new;
        return verdict;
      },
      extend: (_hold, holdMs, signal) => store.extend(latest, holdMs, signal),
      finish: (_hold, response, signal) => store.finish(latest, response, signal),
    };
  }),
  broken('lets a second response win', ['a finished hold stays finished'], (store) => ({
    finish: async (hold, response, signal) => (await store.finish(hold, response, signal)) || hold.startsWith('hold'),
  })),
  broken('cannot free', ['a freed key is new again', 'only the bearer'], (store) => ({
    finish: async (hold, response, signal) => response === 'free' || store.finish(hold, response, signal),
  })),
  broken('does not listen to a late bearer', ['the bearer of a hold in doubt'], (store) => ({
    finish: async (hold, response, signal) =>
      (await store.extend(hold, 60_000, signal)) && store.finish(hold, response, signal),
  })),
  broken('resolves nothing', ['resolve settles'], () => ({ resolve: async () => false })),
  broken('resolves keys that are in progress', ['resolve settles'], (store) => ({
    resolve: async (ask, response, signal) =>
      (await store.resolve(ask, response, signal)) ||
      (await store.look({ ...ask, token: 1_000 }, signal)) === 'in-progress',
  })),
  broken('says absent of what runs', ['look tells every state', 'I4: a look and an older request'], (store) => ({
    look: async (ask, signal) => {
      const verdict = await store.look(ask, signal);
      return verdict === 'in-progress' ? 'absent' : verdict;
    },
  })),
  broken(
    'does not seal a scope by looking',
    ['I3: a look seals', 'a look with a lower token', 'I4: a look and an older request'],
    (store) => ({
      look: (ask, signal) => store.look({ ...ask, token: 1 }, signal),
    }),
  ),
  broken('keeps responses for ever', ['a stored response is kept'], (store) =>
    asking(store, (ask) => ({ ...ask, retentionMs: 1e12 })),
  ),
  broken('drops responses at once', ['a stored response is kept'], (store) =>
    asking(store, (ask) => ({ ...ask, retentionMs: 1 })),
  ),
  broken('begins for a caller that gave up', ['a request whose signal'], (store) => ({
    begin: (ask) => store.begin(ask, never()),
  })),
  broken('answers after close', ['a call after close'], () => ({ close: async () => undefined })),
];
