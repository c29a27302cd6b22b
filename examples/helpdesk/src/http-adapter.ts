import type { IncomingMessage, ServerResponse } from 'node:http';

/** The request as the Fetch API has it, its body read. */
export async function toRequest(incoming: IncomingMessage): Promise<Request> {
  const headers = new Headers();
  for (const [name, value] of Object.entries(incoming.headers)) {
    if (value !== undefined) headers.set(name, Array.isArray(value) ? value.join(', ') : value);
  }
  const chunks: Uint8Array[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Uint8Array);
  const method = incoming.method ?? 'GET';
  const body = method === 'GET' || method === 'HEAD' ? null : Buffer.concat(chunks);
  return new Request(new URL(incoming.url ?? '/', `http://${incoming.headers.host ?? 'localhost'}`), {
    method,
    headers,
    body,
  });
}

/** Sends an answer. True once the system has taken it, false when the caller was gone. */
export async function sendResponse(outgoing: ServerResponse, response: Response): Promise<boolean> {
  const body = Buffer.from(await response.arrayBuffer());
  if (outgoing.destroyed) return false;
  return new Promise((resolve) => {
    outgoing.once('finish', () => resolve(true));
    outgoing.once('close', () => resolve(false));
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.end(body);
  });
}
