import type { IncomingMessage, ServerResponse } from 'node:http';

/** The request as the Fetch API has it, its body read. */
export async function toRequest(incoming: IncomingMessage): Promise<Request> {
  const headers = new Headers();
  for (const [name, value] of Object.entries(incoming.headers))
    if (value !== undefined) headers.set(name, String(value));
  const chunks: Uint8Array[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Uint8Array);
  const { method = 'GET' } = incoming;
  const body = method === 'GET' ? null : Buffer.concat(chunks);
  return new Request(new URL(incoming.url ?? '/', 'http://127.0.0.1'), { method, headers, body });
}

/** Sends an answer to whoever is still there. */
export async function answer(outgoing: ServerResponse, response: Response): Promise<void> {
  const body = Buffer.from(await response.arrayBuffer());
  if (outgoing.destroyed) return;
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  outgoing.end(body);
}
