import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { addPage, articlesOf, EMPTY_INDEX } from '../src/articles.ts';
import type { Answered } from '../src/child-messages.ts';
import { createFaultBoard, type FaultBoard } from '../src/fault-board.ts';
import { startTicketService, type TicketService } from '../src/ticket-service.ts';

let folder: string;
let service: TicketService;
let faults: FaultBoard;
let answered: Answered[];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'leasehold-service-'));
  answered = [];
  const plan = { kill: 'to-kill', stop: 'to-stop', drop: 'to-drop', cancel: 'to-cancel' };
  faults = createFaultBoard(plan, ({ fault }) => faults.letGo({ kind: 'let-go', fault }));
  service = await startTicketService({
    file: join(folder, 'service.sqlite'),
    faults,
    answered: (answer) => void answered.push(answer),
  });
});

afterEach(async () => {
  await service.close();
  rmSync(folder, { recursive: true });
});

async function post(
  path: string,
  body: unknown,
  call: { task?: string; fence: number; key: string },
): Promise<Response> {
  const headers = {
    'x-execution-scope': call.task ?? 'task',
    'x-execution-fence': String(call.fence),
    'idempotency-key': call.key,
  };
  const { pass } = (await (await fetch(`${service.url}/access`, { headers })).json()) as { pass: string };
  return fetch(service.url + path, {
    method: 'POST',
    headers: { ...headers, authorization: `Bearer ${pass}` },
    body: JSON.stringify(body),
  });
}

async function effects(): Promise<readonly unknown[]> {
  return (await (await fetch(`${service.url}/effects`)).json()) as readonly unknown[];
}

const opened = { customer: 'C-20417', subject: 'charged twice' };

test('the same call under the same key is answered as before and done once; an older owner is refused', async () => {
  const first = await post('/cases', opened, { fence: 1, key: 'a' });
  const second = await post('/cases', opened, { fence: 2, key: 'a' });
  expect([first.status, second.status]).toEqual([201, 201]);
  expect(await second.json()).toEqual(await first.json());
  expect((await post('/cases', opened, { fence: 1, key: 'a' })).status).toBe(409);
  expect((await post('/cases', opened, { fence: 1, key: 'b' })).status).toBe(409);
  expect(await effects()).toHaveLength(1);
});

test('a call without a pass, to nowhere, or without what it needs does nothing', async () => {
  expect((await fetch(`${service.url}/cases`, { method: 'POST', body: '{}' })).status).toBe(401);
  expect((await post('/nowhere', opened, { fence: 1, key: 'a' })).status).toBe(404);
  expect((await post('/cases', { customer: 'C-20417' }, { fence: 1, key: 'b' })).status).toBe(400);
  expect(await effects()).toEqual([]);
});

test('a statement is reconciled only when every batch was booked exactly once', async () => {
  const booking = (batch: number, amount: string): unknown => ({
    account: 'DE02',
    statement: 's',
    batch,
    entries: [{ date: '', text: '', amount }],
  });
  const balances = { statement: 's', opening: '10.00', closing: '13.00' };
  await post('/bookings', booking(1, '1.00'), { fence: 1, key: 'b1' });
  expect((await post('/reconciliations', balances, { fence: 1, key: 'r1' })).status).toBe(422);
  await post('/bookings', booking(2, '2.00'), { fence: 1, key: 'b2' });
  expect((await post('/reconciliations', balances, { fence: 1, key: 'r2' })).status).toBe(201);
  // The same batch again under a key that means nothing: what the guard cannot know, the books show.
  await post('/bookings', booking(2, '2.00'), { fence: 1, key: 'b3' });
  expect((await post('/reconciliations', balances, { fence: 1, key: 'r3' })).status).toBe(422);
});

test('an index is published only when every page is in it once and in order', async () => {
  const digestOf = (pages: readonly number[]): string =>
    pages.reduce((index, page) => addPage(index, articlesOf('faq', page)), EMPTY_INDEX).digest;
  const publish = async (pages: readonly number[], key: string): Promise<number> =>
    (await post('/indexes', { collection: 'faq', pages: 3, digest: digestOf(pages) }, { fence: 1, key })).status;
  expect(await publish([0, 1, 1, 2], 'twice')).toBe(422);
  expect(await publish([0, 2], 'left-out')).toBe(422);
  expect(await publish([0, 1, 2], 'right')).toBe(201);
});

test('a dropped answer was committed all the same, and the service knows that it was not delivered', async () => {
  await expect(post('/cases', opened, { task: 'to-drop', fence: 1, key: 'd' })).rejects.toThrow('fetch failed');
  expect(await effects()).toHaveLength(1);
  expect(answered).toEqual([{ kind: 'answered', key: 'd', delivered: false }]);
  expect((await post('/cases', opened, { task: 'to-drop', fence: 1, key: 'd' })).status).toBe(201);
  expect(await effects()).toHaveLength(1);
});
