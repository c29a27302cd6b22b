import { behaveAsSqs } from './queue-behaviour.ts';
import { serveInThread } from './serve-in-thread.ts';

void serveInThread(async (clock) => {
  const { buildApp } = await import('fauxqs');
  behaveAsSqs();
  const app = buildApp({ logger: false });
  // The proxy keeps its connections; one that the server closes under a request would look like a fault.
  app.server.keepAliveTimeout = 0;
  await app.listen({ port: 0, host: '127.0.0.1' });
  clock.countPolls();
  const address = app.server.address();
  return typeof address === 'object' && address ? address.port : 0;
});
