import type { IncomingMessage } from 'node:http';
import { withJson, type ProxyRequest } from './exchange.ts';

/** The whole request; undefined when the client left before it had sent everything. */
export async function readRequest(
  incoming: IncomingMessage,
  operationOf: (request: Omit<ProxyRequest, 'operation'>) => string = awsOperation,
): Promise<ProxyRequest | undefined> {
  const chunks: Buffer[] = [];
  const whole = await new Promise<boolean>((resolve) => {
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('end', () => resolve(true));
    incoming.on('error', () => resolve(false));
    incoming.on('close', () => resolve(false));
  });
  if (!whole) return undefined;
  const request = withJson({
    method: incoming.method ?? 'GET',
    path: incoming.url ?? '/',
    headers: incoming.headers,
    body: Buffer.concat(chunks),
  });
  return Object.assign(request, { operation: operationOf(request) });
}

function awsOperation(request: Omit<ProxyRequest, 'operation'>): string {
  const target = request.headers['x-amz-target'];
  return typeof target === 'string'
    ? target.slice(target.lastIndexOf('.') + 1)
    : `${request.method} ${request.path.split('?')[0]}`;
}
