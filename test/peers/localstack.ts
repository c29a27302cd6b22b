import { join } from 'node:path';
import { pythonEnvironment } from './python-environment.ts';
import type { PeerServer } from './peer-server.ts';

const REQUIREMENTS = join(import.meta.dirname, 'python', 'localstack.txt');

/** LocalStack from its Python package. Its DynamoDB is a program that it downloads, so this one is for SQS only. */
export const localstack: PeerServer = {
  name: 'localstack',
  services: ['sqs'],
  healthPath: '/_localstack/health',
  install: (cache, signal) => pythonEnvironment(cache, 'localstack', REQUIREMENTS, { from: 310, to: 313 }, signal),
  command: (folder, port, scratch) => ({
    file: join(folder, 'bin', 'python'),
    args: ['-m', 'localstack.runtime.main'],
    env: {
      SERVICES: 'sqs',
      STRICT_SERVICE_LOADING: '1',
      // The other server it knows, twisted, binds to every address whatever is asked for.
      GATEWAY_SERVER: 'hypercorn',
      GATEWAY_LISTEN: `127.0.0.1:${port}`,
      LOCALSTACK_HOST: `127.0.0.1:${port}`,
      SQS_ENDPOINT_STRATEGY: 'path',
      SQS_DISABLE_CLOUDWATCH_METRICS: '1',
      // Everything that it would look for or write elsewhere.
      OVERRIDE_IN_DOCKER: '0',
      FILESYSTEM_ROOT: scratch,
      XDG_CACHE_HOME: scratch,
      DISABLE_EVENTS: '1',
      SKIP_SSL_CERT_DOWNLOAD: '1',
      DNS_ADDRESS: '0',
    },
  }),
};
