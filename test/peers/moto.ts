import { join } from 'node:path';
import { pythonEnvironment } from './python-environment.ts';
import type { PeerServer } from './peer-server.ts';

const REQUIREMENTS = join(import.meta.dirname, 'python', 'moto.txt');

/** https://docs.getmoto.org/en/latest/docs/server_mode.html */
export const moto: PeerServer = {
  name: 'moto',
  services: ['sqs', 'dynamodb'],
  healthPath: '/moto-api/',
  install: (cache, signal) => pythonEnvironment(cache, 'moto', REQUIREMENTS, { from: 310, to: 314 }, signal),
  command: (folder, port) => ({
    file: join(folder, 'bin', 'python'),
    args: ['-m', 'moto.server', '-H', '127.0.0.1', '-p', String(port)],
  }),
};
