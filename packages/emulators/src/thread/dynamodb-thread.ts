// oxlint-disable-next-line typescript/triple-slash-reference -- an ambient declaration cannot be imported
/// <reference path="./dynalite.d.mts" />
import { serveInThread } from './serve-in-thread.ts';

void serveInThread(async () => {
  const { default: dynalite } = await import('dynalite');
  const server = dynalite({ createTableMs: 0, updateTableMs: 0, deleteTableMs: 0 });
  // The proxy keeps its connections; one that the server closes under a request would look like a fault.
  server.keepAliveTimeout = 0;
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  return typeof address === 'object' && address ? address.port : 0;
});
