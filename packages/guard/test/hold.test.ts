import { LeaseholdError, sleep, systemClock, type GuardStore } from '@leasehold/core';
import { dropAnswer, failBefore, faultPlan, faultyGuard, hangDeaf } from '@leasehold/core/testing';
import { expect, test } from 'vitest';
import { call, HOLD, latch, receiver, seen, settled, signal, type Receiver } from './receiver.ts';

/** `lost`: it is done and the answer dropped; `refused`: it is not done; `hung`: it never answers. */
const FAULTS = { lost: dropAnswer(), refused: failBefore(), hung: hangDeaf() };
type Name = keyof typeof FAULTS;

/** The store with its first calls failing, method by method. */
function faulty(store: GuardStore, plan: Partial<Record<'begin' | 'extend' | 'finish', readonly Name[]>>): GuardStore {
  const faults = faultPlan<GuardStore>();
  for (const method of ['begin', 'extend', 'finish'] as const) {
    plan[method]?.forEach((name, index) => faults.on(method, FAULTS[name], { nth: index + 1 }));
  }
  return faultyGuard(store, faults, systemClock());
}

test('a handler that runs much longer than the hold keeps it, and leaves no timer behind', async () => {
  const gate = latch();
  const { handle, clock, contexts } = receiver({}, () => gate.promise.then(() => new Response('done')));
  const first = handle(call());
  await clock.advance(20 * HOLD + 1);
  expect(await seen(await handle(call()))).toMatchObject({ problem: 'in-progress' });
  expect(contexts[0]).toMatchObject({ held: true, signal: { aborted: false } });
  gate.open();
  expect((await first).status).toBe(200);
  expect(clock.pending).toBe(0);
});

test('the hold is extended every third of it, and two extensions in a row may fail', async () => {
  const gate = latch();
  let extended = 0;
  const { handle, clock, contexts } = receiver(
    {},
    () => gate.promise.then(() => new Response('done')),
    (store) => ({
      ...store,
      extend: (...args) => (
        ++extended,
        extended === 2 || extended === 3 ? Promise.reject(new Error('down')) : store.extend(...args)
      ),
    }),
  );
  const first = handle(call());
  await settled();
  await clock.advance(HOLD / 3 - 1);
  expect(extended).toBe(0);
  await clock.advance(1);
  expect(extended).toBe(1);
  await clock.advance(HOLD);
  expect(contexts[0]?.held).toBe(true);
  gate.open();
  expect((await first).status).toBe(200);
});

test.for<[string, Name[]]>([
  ['is refused or hangs', ['refused', 'hung', 'refused', 'hung', 'refused', 'hung', 'refused', 'hung']],
  ['hangs', ['hung', 'hung', 'hung', 'hung', 'hung']],
])(
  'a hold whose every extension %s is over on time: the handler is told, and nothing runs meanwhile',
  async ([, extend]) => {
    const gate = latch();
    const { handle, clock, contexts, events, runs } = receiver(
      {},
      () => gate.promise.then(() => new Response('done')),
      (store) => faulty(store, { extend }),
    );
    const first = handle(call());
    await settled();
    await clock.advance(HOLD - 1);
    expect(contexts[0]).toMatchObject({ held: true, signal: { aborted: false } });
    await clock.advance(1);
    expect(contexts[0]).toMatchObject({ held: false, signal: { aborted: true, reason: { code: 'ownership' } } });
    expect(events.at(-1)).toMatchObject({ name: 'guard_hold_lost', cause: 'unanswered' });
    expect(await seen(await handle(call()))).toMatchObject({ problem: 'in-progress' });
    gate.open();
    expect(await seen(await first)).toMatchObject({ status: 200, body: 'done' });
    expect(await seen(await handle(call()))).toMatchObject({ replayed: true, body: 'done' });
    expect(runs).toHaveLength(1);
    expect(clock.pending).toBe(0);
  },
);

test('a hold that the store says is over is over at once', async () => {
  const gate = latch();
  const { handle, clock, contexts, events } = receiver(
    {},
    () => gate.promise.then(() => new Response('done')),
    (store) => ({ ...store, extend: async () => false }),
  );
  const first = handle(call());
  await clock.advance(HOLD / 3);
  expect(contexts[0]).toMatchObject({ held: false, signal: { aborted: true } });
  expect(events.at(-1)).toMatchObject({ name: 'guard_hold_lost', cause: 'refused' });
  gate.open();
  await first;
  expect(clock.pending).toBe(0);
});

test('an extension counts from before it was sent, however late its answer came', async () => {
  const gate = latch();
  let extended = 0;
  const { handle, clock, contexts } = receiver(
    {},
    () => gate.promise.then(() => new Response('done')),
    (store) => ({
      ...store,
      async extend(...args) {
        if (extended++ > 0) throw new Error('down');
        const answer = await store.extend(...args);
        await sleep(clock, 4_000);
        return answer;
      },
    }),
  );
  const first = handle(call());
  await settled();
  await clock.advance(HOLD / 3 + HOLD - 1);
  expect(contexts[0]?.held).toBe(true);
  await clock.advance(1);
  expect(contexts[0]).toMatchObject({ held: false, signal: { aborted: true } });
  gate.open();
  await first;
});

test('a blocked process knows at once that its hold is over, before any timer fires', async () => {
  const gate = latch();
  const { handle, clock, contexts } = receiver({}, () => gate.promise.then(() => new Response('done')));
  void handle(call());
  await settled();
  clock.block(HOLD);
  expect(contexts[0]?.held).toBe(false);
  gate.open();
});

test('a permission that arrives after the whole hold has passed is given back, and nothing runs', async () => {
  const { handle, clock, runs, store } = receiver({}, undefined, (inner) => ({
    ...inner,
    async begin(...args) {
      const verdict = await inner.begin(...args);
      clock.block(HOLD);
      return verdict;
    },
  }));
  expect(await seen(await handle(call()))).toMatchObject({ status: 503, problem: 'store-unavailable' });
  expect([runs, store.state.keys]).toEqual([[], []]);
});

test.for(['refused', 'lost', 'hung'] as const)(
  'a store that is down before the handler starts (%s) means 503 with Retry-After, and nothing runs',
  async (fault) => {
    const { handle, clock, runs, events } = receiver({}, undefined, (store) => faulty(store, { begin: [fault] }));
    const first = handle(call());
    await clock.advance(5_000);
    const answer = await first;
    expect(answer.headers.get('retry-after')).toBe('5');
    expect(await seen(answer)).toMatchObject({ status: 503, problem: 'store-unavailable' });
    expect(runs).toEqual([]);
    expect(events).toMatchObject([{ name: 'guard_store_failed', operation: 'begin' }, { name: 'guard_refused' }]);
  },
);

test('a store that was set up wrongly says so, unless the guard only observes', async () => {
  const wrong = new LeaseholdError('bad-option', 'file is the database of another application', { field: 'file' });
  const broken = (store: GuardStore): GuardStore => ({ ...store, begin: () => Promise.reject(wrong) });
  const enforcing = receiver({}, undefined, broken);
  await expect(enforcing.handle(call())).rejects.toBe(wrong);
  expect(enforcing.runs).toEqual([]);
  const observing = receiver({ mode: 'observe' }, undefined, broken);
  expect((await observing.handle(call())).status).toBe(201);
  expect(observing.events[0]).toMatchObject({ name: 'guard_store_failed', errorCode: 'bad-option' });
});

test('a permission that comes after the guard stopped waiting is given back, so the retry runs', async () => {
  const slow = latch();
  let begins = 0;
  const { handle, clock, runs } = receiver({}, undefined, (store) => ({
    ...store,
    async begin(...args) {
      const verdict = await store.begin(...args);
      if (begins++ === 0) await slow.promise;
      return verdict;
    },
  }));
  const first = handle(call());
  await clock.advance(5_000);
  expect((await first).status).toBe(503);
  slow.open();
  await settled();
  expect((await handle(call())).status).toBe(201);
  expect(runs).toHaveLength(1);
});

test('a finish that is not answered is repeated, and the caller is told once it is stored', async () => {
  for (const faults of [['lost'], ['refused'], ['refused', 'lost'], ['hung', 'lost']] as const) {
    const { handle, clock, runs } = receiver({}, undefined, (store) => faulty(store, { finish: [...faults] }));
    const first = handle(call());
    await clock.advance(11_000);
    expect(await seen(await first)).toMatchObject({ status: 201, body: 'created' });
    expect(await seen(await handle(call()))).toMatchObject({ replayed: true });
    expect(runs).toHaveLength(1);
  }
});

test('a success that could not be recorded is not told: the caller gets 503 and, repeating, the truth', async () => {
  for (const [faults, later] of [
    [['lost', 'refused', 'refused'], { status: 201, replayed: true }],
    [['refused', 'refused', 'refused'], { status: 409, problem: 'in-doubt' }],
  ] as const) {
    const { handle, clock, runs, names } = receiver({}, undefined, (store) => faulty(store, { finish: [...faults] }));
    const first = handle(call());
    await clock.advance(1_000);
    expect(await seen(await first)).toMatchObject({ status: 503, problem: 'outcome-unknown' });
    expect(names()).toContain('guard_outcome_unknown');
    await clock.advance(HOLD);
    expect(await seen(await handle(call()))).toMatchObject(later);
    expect(runs).toHaveLength(1);
  }
});

test('a freed key whose answer was lost is freed all the same', async () => {
  const { handle, clock, runs } = receiver(
    {},
    (_, context) => {
      context.nothingHappened();
      return new Response('', { status: 503 });
    },
    (store) => faulty(store, { finish: ['refused', 'lost'] }),
  );
  const first = handle(call());
  await clock.advance(1_000);
  await first;
  await handle(call());
  expect(runs).toHaveLength(2);
});

/** Runs a handler whose hold lapses because extensions fail, lets the store be changed meanwhile, and gives its answer. */
async function late(meanwhile: (made: Receiver) => Promise<void>): Promise<ReturnType<typeof seen>> {
  const gate = latch();
  const made = receiver(
    {},
    () => gate.promise.then(() => new Response('ours', { status: 201 })),
    (store) => faulty(store, { extend: Array.from({ length: 50 }, () => 'refused') }),
  );
  const first = made.handle(call());
  await made.clock.advance(HOLD);
  await meanwhile(made);
  gate.open();
  await settled();
  return seen(await first);
}

const ask = { scope: 'task-1', key: 'k' };
const theirs = { status: 200, headers: {}, body: new TextEncoder().encode('theirs') };

test('a handler that outlived its hold settles the doubt with what it did', async () => {
  expect(await late(async () => undefined)).toMatchObject({ status: 201, body: 'ours', replayed: false });
});

test('if another outcome was stored meanwhile, that is what the late one tells its caller too', async () => {
  const answer = await late(async ({ store, names }) => {
    expect(await store.resolve(ask, theirs, signal())).toBe(true);
    expect(names()).not.toContain('guard_contradicted');
  });
  expect(answer).toMatchObject({ status: 200, body: 'theirs', replayed: true });
});

test('if the key was freed meanwhile, the late response takes it, so that no other request runs', async () => {
  let made: Receiver | undefined;
  const answer = await late(async (here) => {
    made = here;
    expect(await here.store.resolve(ask, 'free', signal())).toBe(true);
  });
  expect(answer).toMatchObject({ status: 201, body: 'ours' });
  expect(await seen(await (made as Receiver).handle(call()))).toMatchObject({
    replayed: true,
    body: 'ours',
  });
});

test('if the receiver’s own state said the same meanwhile, there is nothing to report', async () => {
  let names: (() => string[]) | undefined;
  const answer = await late(async (here) => {
    names = here.names;
    const same = { status: 201, headers: {}, body: new TextEncoder().encode('ours') };
    expect(await here.store.resolve(ask, same, signal())).toBe(true);
  });
  expect(answer).toMatchObject({ status: 201, body: 'ours', replayed: false });
  expect(names?.()).not.toContain('guard_contradicted');
});

test('if the key was freed, run by another and is in doubt again, the late response settles that doubt: it did happen', async () => {
  const answer = await late(async ({ store, clock }) => {
    await store.resolve(ask, 'free', signal());
    const again = { ...ask, requestHash: 'x', holdMs: HOLD, retentionMs: HOLD };
    expect(await store.begin(again, signal())).toHaveProperty('new');
    await clock.advance(HOLD);
  });
  expect(answer).toMatchObject({ status: 201, body: 'ours', replayed: false });
});

test('if the key was freed and another runs, the late one does not tell a success', async () => {
  let names: (() => string[]) | undefined;
  const answer = await late(async (here) => {
    names = here.names;
    await here.store.resolve(ask, 'free', signal());
    const probe = { ...ask, requestHash: 'x', holdMs: HOLD, retentionMs: HOLD };
    expect(await here.store.begin(probe, signal())).toHaveProperty('new');
  });
  // The other one bears another body here; with the same it would be `in-progress`.
  expect(answer).toMatchObject({ status: 422, problem: 'key-reused' });
  expect(names?.()).toContain('guard_contradicted');
});

test('if a newer owner came and the key was freed, the late owner learns that it is stale', async () => {
  const answer = await late(async ({ store }) => {
    await store.look({ ...ask, token: 5 }, signal());
    await store.resolve(ask, 'free', signal());
  });
  expect(answer).toMatchObject({ status: 409, problem: 'stale-token', json: { highest: 5 } });
});
