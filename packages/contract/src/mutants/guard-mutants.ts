import type { GuardAsk, GuardHold, GuardStore } from '@leasehold/core';
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
/** Changes an asking by how often its hold was asked for before. */
const fresh = (store: GuardStore, change: (ask: GuardAsk, attempt: number) => GuardAsk): Partial<GuardStore> => {
  const asked = new Map<string, number>();
  return {
    begin: (ask, signal) => {
      const attempt = asked.get(ask.hold) ?? 0;
      asked.set(ask.hold, attempt + 1);
      return store.begin(change(ask, attempt), signal);
    },
  };
};
/** Holds that were freed, of all stores: no two have one name. */
const over = new Set<string>();
const end = (hold: GuardHold, response: unknown): void => void (response === 'free' && over.add(hold.hold));
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
      return seen === 'absent' ? { new: ask.hold } : store.begin(ask, signal);
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
      if (typeof verdict === 'string' || !('inDoubt' in verdict)) return verdict;
      await store.resolve({ ...ask, hold: verdict.inDoubt }, 'free', signal);
      return store.begin(ask, signal);
    },
  })),
  broken('says it extended, and did not', ['extend keeps a hold'], () => ({ extend: async () => true })),
  broken('extends what ran out', ['extend keeps a hold'], (store) => {
    const begun = new Set<string>();
    return {
      begin: async (ask, signal) => {
        const verdict = await store.begin(ask, signal);
        if (typeof verdict === 'object' && 'new' in verdict) begun.add(verdict.new);
        return verdict;
      },
      extend: async (hold, holdMs, signal) => (await store.extend(hold, holdMs, signal)) || begun.has(hold.hold),
    };
  }),
  broken('takes any hold for the bearer’s', ['only the bearer'], (store) => {
    const latest = new Map<string, GuardHold>();
    const bearer = (hold: GuardHold): GuardHold => latest.get(`${hold.scope} ${hold.key}`) ?? hold;
    return {
      begin: async (ask, signal) => {
        const verdict = await store.begin(ask, signal);
        if (typeof verdict === 'object' && 'new' in verdict) latest.set(`${ask.scope} ${ask.key}`, ask);
        return verdict;
      },
      extend: (hold, holdMs, signal) => store.extend(bearer(hold), holdMs, signal),
      finish: (hold, response, signal) => store.finish(bearer(hold), response, signal),
    };
  }),
  broken('finds a hold by its name alone', ['only the bearer'], (store) => {
    const places = new Map<string, GuardHold>();
    const place = (hold: GuardHold): GuardHold => places.get(hold.hold) ?? hold;
    return {
      begin: (ask, signal) => (places.set(ask.hold, ask), store.begin(ask, signal)),
      extend: (hold, holdMs, signal) => store.extend(place(hold), holdMs, signal),
      finish: (hold, response, signal) => store.finish(place(hold), response, signal),
    };
  }),
  broken('lets a second response win', ['a finished hold stays finished'], (store) => ({
    finish: async (hold, response, signal) => (await store.finish(hold, response, signal)) || hold.hold !== 'nobody',
  })),
  broken(
    'does not know its own words again',
    ['a finished hold stays finished', 'a hold that was freed is freed again', 'a hold that was resolved as free'],
    (store) => {
      const ended = new Set<string>();
      return {
        finish: async (hold, response, signal) => {
          if (ended.has(hold.hold)) return false;
          ended.add(hold.hold);
          return store.finish(hold, response, signal);
        },
        resolve: (hold, response, signal) => (ended.add(hold.hold), store.resolve(hold, response, signal)),
      };
    },
  ),
  broken(
    'does not know its own hold again',
    ['a begin that is sent again while', 'a begin that is sent twice'],
    (store) => fresh(store, (ask, attempt) => (attempt === 0 ? ask : { ...ask, hold: `${ask.hold} ${attempt}` })),
  ),
  broken('takes every asking for the bearer’s', ['a begin that is sent again while'], (store) => ({
    begin: async (ask, signal) => {
      const verdict = await store.begin(ask, signal);
      return verdict === 'in-progress' ? { new: ask.hold } : verdict;
    },
  })),
  broken('prolongs a hold that is asked for again', ['I7: a begin that is sent again'], (store) => ({
    begin: async (ask, signal) => {
      const verdict = await store.begin(ask, signal);
      await store.extend(ask, ask.holdMs, signal);
      return verdict;
    },
  })),
  broken('revives a hold that is asked for again', ['I7: a begin that is sent again'], (store) => ({
    begin: async (ask, signal) => {
      const verdict = await store.begin(ask, signal);
      if (typeof verdict === 'string' || !('inDoubt' in verdict)) return verdict;
      return verdict.inDoubt === ask.hold ? { new: ask.hold } : verdict;
    },
  })),
  broken('lets a hold in that is asked for again, whatever the fence', ['I3: a begin that is sent again'], (store) =>
    fresh(store, ({ token, ...ask }, attempt) => (attempt === 0 && token !== undefined ? { ...ask, token } : ask)),
  ),
  broken('says that nothing was freed when nothing was held', ['a hold that was freed is freed again'], (store) => ({
    finish: async (hold, response, signal) => {
      const held = await store.look({ ...hold, token: 1_000 }, signal);
      return (await store.finish(hold, response, signal)) && held !== 'absent';
    },
  })),
  broken(
    'says free of a hold whose response is told',
    ['a hold that was freed is freed again', 'resolve settles a'],
    (store) => ({
      finish: async (hold, response, signal) => (await store.finish(hold, response, signal)) || response === 'free',
    }),
  ),
  broken('gives a freed hold to a late begin', ['a begin that arrives after', 'a hold that was resolved'], (store) => ({
    begin: async (ask, signal) => {
      const verdict = await store.begin(ask, signal);
      return verdict === 'in-progress' && over.has(ask.hold) ? { new: ask.hold } : verdict;
    },
    finish: (hold, response, signal) => (end(hold, response), store.finish(hold, response, signal)),
    resolve: (hold, response, signal) => (end(hold, response), store.resolve(hold, response, signal)),
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
    resolve: async (hold, response, signal) =>
      (await store.resolve(hold, response, signal)) ||
      (await store.look({ ...hold, token: 1_000 }, signal)) === 'in-progress',
  })),
  broken('resolves whatever is in doubt', ['I4: resolve settles the doubt it was asked about'], (store) => ({
    resolve: async (hold, response, signal) => {
      const seen = await store.look({ ...hold, token: 1 }, signal);
      const current = typeof seen === 'object' && 'inDoubt' in seen ? seen.inDoubt : hold.hold;
      return store.resolve({ ...hold, hold: current }, response, signal);
    },
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
