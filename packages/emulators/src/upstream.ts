import { Agent, request as httpRequest } from 'node:http';
import { withJson, type Headers, type ProxyAnswer, type ProxyRequest } from './exchange.ts';

// They belong to one connection, or are set anew.
const OWN_HEADERS = new Set(['connection', 'keep-alive', 'transfer-encoding', 'content-length', 'expect']);

/** The proxy's own connections to the server. */
export class Upstream {
  readonly target: string;
  readonly #url: URL;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: Infinity, maxFreeSockets: Infinity });

  constructor(target: string) {
    this.target = target;
    this.#url = new URL(target);
  }

  send(request: ProxyRequest): Promise<ProxyAnswer> {
    return new Promise((resolve, reject) => {
      const outgoing = httpRequest(
        {
          agent: this.#agent,
          hostname: this.#url.hostname,
          port: this.#url.port,
          method: request.method,
          path: request.path,
          headers: { ...passedOn(request.headers), 'content-length': request.body.length },
        },
        (incoming) => {
          const chunks: Buffer[] = [];
          incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
          incoming.on('error', reject);
          incoming.on('end', () => {
            resolve(
              withJson({
                status: incoming.statusCode ?? 502,
                headers: passedOn(incoming.headers),
                body: Buffer.concat(chunks),
              }),
            );
          });
        },
      );
      outgoing.on('error', reject);
      outgoing.end(request.body);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

function passedOn(headers: Headers): Record<string, string | string[]> {
  const kept: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && !OWN_HEADERS.has(name)) kept[name] = typeof value === 'string' ? value : [...value];
  }
  return kept;
}
