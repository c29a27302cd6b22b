import type { Server } from 'node:net';
import { EmulatorError } from './emulator-error.ts';

/** Listens on the loopback interface; resolves with the port. */
export function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    if (!Number.isInteger(port) || port < 0 || port > 65_535) {
      reject(
        new EmulatorError('port', `${port} is no port`, 'pass a whole number from 1 to 65535, or 0 for a free one'),
      );
      return;
    }
    server.once('error', (error: NodeJS.ErrnoException) => {
      const what = error.code === 'EADDRINUSE' ? `127.0.0.1:${port} is in use` : `cannot listen on 127.0.0.1:${port}`;
      reject(new EmulatorError('port', what, 'pass another port, or 0 for a free one', error));
    });
    server.listen(port, '127.0.0.1', () => {
      const address = server.address();
      resolve(typeof address === 'object' && address ? address.port : port);
    });
  });
}
