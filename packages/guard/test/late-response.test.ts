import type { StoredResponse } from '@leasehold/core';
import type { GuardContext, GuardHandler } from '@leasehold/guard';
import { expect, test } from 'vitest';
import { faulty, type FaultName } from './faulty-store.ts';
import { call, HOLD, latch, receiver, seen, settled, signal, type Receiver } from './receiver.ts';

/** Runs a handler whose hold lapses because extensions fail, lets the store be changed meanwhile, and gives its answer. */
async function late(
  meanwhile: (made: Receiver) => Promise<void>,
  begin: readonly FaultName[] = [],
): Promise<Awaited<ReturnType<typeof seen>>> {
  const gate = latch();
  const made = receiver(
    {},
    () => gate.promise.then(() => new Response('ours', { status: 201 })),
    (store) => faulty({ ...store, extend: () => Promise.reject(new Error('down')) }, { begin }, 1),
  );
  const first = made.handle(call());
  await made.clock.advance(HOLD);
  await meanwhile(made);
  gate.open();
  await made.clock.advance(300);
  return seen(await first);
}

const theirs = { status: 200, headers: {}, body: new TextEncoder().encode('theirs') };

/** Settles the doubt there is about the key, past every hook. */
async function settle({ store }: Receiver, response: StoredResponse | 'free'): Promise<void> {
  const asked = { scope: 'task-1', key: 'k', token: 1 };
  const verdict = await store.look(asked, signal());
  const doubt = { ...asked, hold: (verdict as { readonly inDoubt: string }).inDoubt };
  expect(await store.resolve(doubt, response, signal())).toBe(true);
}

/** Another process on the same store. */
function other(made: Receiver, handler: GuardHandler<GuardContext>): Receiver {
  return receiver({}, handler, undefined, made.clock, made.store);
}

test('a handler that outlived its hold settles the doubt with what it did', async () => {
  expect(await late(async () => undefined)).toMatchObject({ status: 201, body: 'ours', replayed: false });
});

test('if another outcome was stored meanwhile, that is what the late one tells its caller too', async () => {
  const answer = await late(async (made) => {
    await settle(made, theirs);
    expect(made.names()).not.toContain('guard_contradicted');
  });
  expect(answer).toMatchObject({ status: 200, body: 'theirs', replayed: true });
});

test('if the key was freed meanwhile, the late response takes it, so that no other request runs', async () => {
  let made: Receiver | undefined;
  const answer = await late(async (here) => {
    made = here;
    await settle(here, 'free');
  });
  expect(answer).toMatchObject({ status: 201, body: 'ours' });
  expect(await seen(await (made as Receiver).handle(call()))).toMatchObject({
    replayed: true,
    body: 'ours',
  });
});

test('if it cannot be known whether the late response took the freed key, the key is not given to others', async () => {
  let made: Receiver | undefined;
  const answer = await late(
    async (here) => {
      made = here;
      await settle(here, 'free');
    },
    ['lost', 'lost', 'lost'],
  );
  expect(answer).toMatchObject({ status: 503, problem: 'outcome-unknown' });
  await made?.clock.advance(2 * HOLD);
  expect(made?.store.state.keys).toMatchObject([{ state: 'in-doubt' }]);
});

test('if the receiver’s own state said the same meanwhile, there is nothing to report', async () => {
  let names: (() => string[]) | undefined;
  const answer = await late(async (here) => {
    names = here.names;
    await settle(here, { status: 201, headers: {}, body: new TextEncoder().encode('ours') });
  });
  expect(answer).toMatchObject({ status: 201, body: 'ours', replayed: false });
  expect(names?.()).not.toContain('guard_contradicted');
});

test('if the key was freed, run by another and is in doubt again, the late response settles that doubt: it did happen', async () => {
  const answer = await late(async (made) => {
    await settle(made, 'free');
    const again = other(made, () => Promise.reject(new Error('crashed')));
    await expect(again.handle(call())).rejects.toThrow('crashed');
    await made.clock.advance(HOLD);
  });
  expect(answer).toMatchObject({ status: 201, body: 'ours', replayed: false });
});

test('if the key was freed and another runs, the late one does not tell a success', async () => {
  let names: (() => string[]) | undefined;
  const gate = latch();
  const answer = await late(async (here) => {
    names = here.names;
    await settle(here, 'free');
    void other(here, () => gate.promise.then(() => new Response('theirs'))).handle(call());
    await settled();
  });
  expect(answer).toMatchObject({ status: 409, problem: 'in-progress' });
  expect(names?.()).toContain('guard_contradicted');
  gate.open();
  await settled();
});

test('if the key was freed and used for another request, the late one is told so and settles nothing of it', async () => {
  let made: Receiver | undefined;
  const answer = await late(async (here) => {
    made = here;
    await settle(here, 'free');
    const again = other(here, () => Promise.reject(new Error('crashed')));
    await expect(again.handle(call({ body: 'another' }))).rejects.toThrow('crashed');
    await here.clock.advance(HOLD);
  });
  expect(answer).toMatchObject({ status: 422, problem: 'key-reused' });
  expect(made?.store.state.keys).toMatchObject([{ state: 'in-doubt' }]);
});

test('if a newer owner came and the key was freed, the late owner learns that it is stale', async () => {
  const answer = await late(async (made) => {
    await settle(made, 'free');
    await made.store.look({ scope: 'task-1', key: 'k', token: 5 }, signal());
  });
  expect(answer).toMatchObject({ status: 409, problem: 'stale-token', json: { highest: 5 } });
});
