import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import type { Json } from '@leasehold/core';
import { KEY_HEADER, LOOK_PATH, REPLAY_HEADER, SCOPE_HEADER, transactionalGuard } from '@leasehold/guard';
import { sqliteGuard } from '@leasehold/sqlite';
import { articlesOf } from './articles.ts';
import type { Answered } from './child-messages.ts';
import { createTables, effectOf, listEffects } from './effects.ts';
import type { FaultBoard, MeetingCall } from './fault-board.ts';
import { sendResponse, toRequest } from './http-adapter.ts';

/** A running ticket service. */
export interface TicketService {
  readonly url: string;
  close(): Promise<void>;
}

/** How long the service takes to think. */
const READ_MS = 120;
const WRITE_MS = 60;
/** The page of an index at which a rebuild waits for its cancellation. */
const CANCEL_PAGE = 3;

/**
 * The ticket service: cases, bookings, reconciliations and search indexes in one SQLite file, behind a guard whose memory is in the same
 * file, so that an effect and its key are committed in one transaction. It knows nothing of the queue or the ledger.
 */
export async function startTicketService(options: {
  readonly file: string;
  readonly faults: FaultBoard;
  readonly answered: (answer: Answered) => void;
}): Promise<TicketService> {
  const { file, faults } = options;
  const store = sqliteGuard({ file, embed: true });
  const db = new DatabaseSync(file);
  db.exec('PRAGMA busy_timeout = 5000');
  createTables(db);
  const passes = new Set<string>();

  const guarded = transactionalGuard(
    store,
    { require: 'fence+key', retention: '30d' },
    async (request, body, { scope, token, key }) => {
      await pause(WRITE_MS);
      const content = JSON.parse(Buffer.from(body).toString()) as Json;
      return effectOf(new URL(request.url).pathname, content, { task: scope, token, key });
    },
  );

  /** A call that changes something. */
  const write = async (request: Request, call: MeetingCall, outgoing: ServerResponse): Promise<void> => {
    const pass = request.headers.get('authorization')?.replace('Bearer ', '') ?? '';
    if (!passes.delete(pass)) {
      await sendResponse(outgoing, Response.json({ detail: 'Get a pass at /access first.' }, { status: 401 }));
      return;
    }
    const response = await guarded(request);
    const committed = response.status === 201 && !response.headers.has(REPLAY_HEADER);
    if (!committed) {
      await sendResponse(outgoing, response);
      return;
    }
    // Committed, and nobody knows yet: the moment in which answers get lost and callers die.
    await faults.meet('kill', call);
    if (await faults.meet('drop', call)) outgoing.destroy();
    options.answered({
      kind: 'answered',
      key: request.headers.get(KEY_HEADER) ?? '',
      delivered: await sendResponse(outgoing, response),
    });
  };
  /** A call that only asks. */
  const read = async (path: URL, call: MeetingCall): Promise<Response> => {
    const [, section, name = ''] = path.pathname.split('/');
    switch (section) {
      case 'access': {
        await faults.meet('stop', call);
        const pass = randomUUID();
        passes.add(pass);
        return Response.json({ pass });
      }
      case 'customers':
        await pause(READ_MS);
        return Response.json({ customer: name, status: 'active' });
      case 'articles': {
        const page = Number(path.searchParams.get('page'));
        await pause(READ_MS);
        if (page === CANCEL_PAGE) await faults.meet('cancel', call);
        return Response.json(articlesOf(name, page));
      }
      case 'effects':
        return Response.json(listEffects(db));
      default:
        return Response.json({ detail: 'There is nothing here.' }, { status: 404 });
    }
  };
  const handle = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const request = await toRequest(incoming);
    const path = new URL(request.url);
    const call: MeetingCall = {
      taskId: request.headers.get(SCOPE_HEADER),
      pid: Number(request.headers.get('x-worker')),
      gone: () => outgoing.destroyed,
    };
    if (path.pathname === LOOK_PATH) await sendResponse(outgoing, await guarded(request));
    else if (request.method === 'GET') await sendResponse(outgoing, await read(path, call));
    else await write(request, call, outgoing);
  };
  const server = createServer((incoming, outgoing) => {
    handle(incoming, outgoing).catch((error: unknown) => {
      // A caller that was killed while it sent is no fault of the service.
      if (!incoming.destroyed || incoming.complete) process.stderr.write(`ticket service: ${String(error)}\n`);
      outgoing.destroy();
    });
  });
  // A stopped worker finds its connection open when it goes on.
  server.keepAliveTimeout = 0;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      await new Promise((resolve) => {
        server.close(resolve);
        server.closeAllConnections();
      });
      db.close();
      await store.close();
    },
  };
}
