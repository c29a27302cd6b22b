/** HTTP headers, names in lower case. */
export type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

/** The members of a JSON object. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** One request as the proxy got it. */
export interface ProxyRequest {
  /** `DeleteMessageBatch`: what follows the dot of `X-Amz-Target`, or what the proxy's `operationOf` says. */
  readonly operation: string;
  readonly method: string;
  readonly path: string;
  readonly headers: Headers;
  readonly body: Buffer;
  /** The body as a JSON object; empty where it is none. Parsed when first looked at. */
  readonly json: JsonObject;
}

/** What the server, or a fault, answers. */
export interface ProxyAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Buffer;
  readonly json: JsonObject;
}

/** The same request with another JSON body, and on AWS servers another operation. */
export function requestWith(
  request: ProxyRequest,
  json: JsonObject,
  operation: string = request.operation,
): ProxyRequest {
  const target = request.headers['x-amz-target'];
  const headers =
    typeof target === 'string'
      ? { ...request.headers, 'x-amz-target': `${target.slice(0, target.lastIndexOf('.'))}.${operation}` }
      : request.headers;
  const body = Buffer.from(JSON.stringify(json));
  return { operation, method: request.method, path: request.path, headers, body, json };
}

/** An answer with a JSON body, in the AWS JSON protocol's content type. */
export function jsonAnswer(json: JsonObject, status = 200, headers: Headers = {}): ProxyAnswer {
  const body = Buffer.from(JSON.stringify(json));
  return { status, headers: { 'content-type': 'application/x-amz-json-1.0', ...headers }, body, json };
}

/** The same answer with another JSON body. */
export function answerWith(answer: ProxyAnswer, json: JsonObject): ProxyAnswer {
  // A checksum of the old body would not fit the new one.
  const { 'x-amz-crc32': _, ...headers } = answer.headers;
  return { ...jsonAnswer(json, answer.status, headers), headers };
}

/** Something with a body whose JSON is parsed when it is first looked at. */
export function withJson<Message extends { readonly body: Buffer }>(message: Message): Message & { json: JsonObject } {
  let parsed: JsonObject | undefined;
  return Object.defineProperty(message, 'json', {
    enumerable: true,
    get: () => (parsed ??= jsonOf(message.body)),
  }) as Message & { json: JsonObject };
}

/** The objects in a member of a JSON object that is a list; empty where it is none. */
export function objectsIn(json: JsonObject, member: string): readonly JsonObject[] {
  const list = json[member];
  return Array.isArray(list)
    ? list.filter((each): each is JsonObject => typeof each === 'object' && each !== null)
    : [];
}

function jsonOf(body: Buffer): JsonObject {
  try {
    const value: unknown = JSON.parse(body.toString());
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};
  } catch {
    return {};
  }
}
