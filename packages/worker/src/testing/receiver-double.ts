import type { Json } from '@leasehold/core';
import type { CommitContext } from '../effect-options.ts';
import { answerTo, type DoubleAnswer } from './double-answer.ts';
import { readClaim, type Claim } from './double-claim.ts';
import { currentScene, type Manner, type Scene } from './scene.ts';

/** Something that a double made. */
export interface Made {
  /** `made-1`, `made-2`, ... */
  readonly id: string;
  /** The idempotency key, where there was one. */
  readonly key?: string;
  readonly fence?: number;
  readonly method: string;
  readonly url: string;
  /** What was sent: JSON, or the text where it is none. */
  readonly sent: Json;
  /** What the double answers to it, now and ever after. */
  readonly answer: Required<DoubleAnswer>;
}

/** A request as a double sees it. */
export interface DoubleRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Headers;
  readonly text: string;
  /** Where in the task it was sent from. */
  readonly scene: Scene | undefined;
}

/** A request that was answered. `made`: it took effect; `replayed`: its key was known. */
export interface AnsweredRequest extends DoubleRequest {
  readonly outcome: 'made' | 'replayed' | 'refused' | 'read';
  readonly status: number;
  readonly key?: string;
  /** Why it was refused: the name of the problem, as a guard gives it. */
  readonly refusal?: string;
  /** The same in a sentence. */
  readonly detail?: string;
}

/** How a double behaves. */
export interface ReceiverDoubleOptions {
  /**
   * What it remembers. `guarded`: keys and fences; `idempotent`: keys; `plain`: nothing, every request takes effect. Default `as-declared`: what
   * the effect that calls declares about its receiver; outside of an effect, keys where there are any.
   */
  readonly receiver?: Manner | 'as-declared';
  /** What a request that makes something is answered with. Default 201, the JSON object that was sent, and its `id`. From 400 up nothing is made. */
  readonly answer?: (made: Omit<Made, 'answer'>) => DoubleAnswer | undefined;
  /** What a GET is answered with; `made` is what exists under its key or id. Default that one's answer, 404 in a read-back, else `{}`. */
  readonly read?: (request: DoubleRequest, made: Made | undefined) => DoubleAnswer | undefined;
}

/** A receiver that exists in memory only, and remembers what it made. Made by {@link receiverDouble}. */
export interface ReceiverDouble {
  /** Everything that took effect, oldest first: an effect that was made twice is in here twice. */
  readonly made: readonly Made[];
  /** Every request, oldest first. */
  readonly requests: readonly AnsweredRequest[];
  /** Answers as the receiver would over HTTP, its look endpoint included. Rejects when the request's signal has aborted. */
  readonly fetch: typeof globalThis.fetch;
  /** For the `effects` option of `runTask`: makes one thing, and resolves with the body of the answer. Rejects when it refuses. */
  make(call: CommitContext, sent?: Json): Promise<unknown>;
  /** The body of the answer under a key, or nothing. At a guarded receiver it raises the fence. */
  find(call: CommitContext): Promise<unknown>;
}

const READS = ['GET', 'HEAD', 'OPTIONS'];
const LOOK_PATH = '/.well-known/leasehold/look';

/**
 * A receiver in memory for tests of handlers. It answers a write with a made id, the same for the same idempotency key; guarded, it refuses a
 * fence lower than the highest it has seen. What it made can be counted.
 *
 * @example
 * ```ts
 * import { receiverDouble } from '@leasehold/worker/testing';
 *
 * const pay = receiverDouble({ receiver: 'guarded', answer: ({ id }) => ({ status: 201, body: { id, state: 'paid' } }) });
 * const answer = await pay.fetch('https://pay.example/charges', {
 *   method: 'POST',
 *   headers: { 'x-execution-scope': 't-1', 'x-execution-fence': '1', 'idempotency-key': 'k-1' },
 * });
 * console.log(answer.status, pay.made.length);
 * ```
 */
export function receiverDouble(options: ReceiverDoubleOptions = {}): ReceiverDouble {
  const made: Made[] = [];
  const requests: AnsweredRequest[] = [];
  const highest = new Map<string, number>();
  /** Known from the effects: who closes a task looks from outside of the handler. */
  const lookUrls = new Set<string>();
  /** The keys of the effects that asked for things, whether or not they passed them on. */
  const effectKeys = new Map<Made, string>();

  const answered = (
    request: DoubleRequest,
    outcome: AnsweredRequest['outcome'],
    answer: Required<DoubleAnswer>,
    more: Partial<AnsweredRequest> = {},
  ): Required<DoubleAnswer> => {
    requests.push({ ...request, outcome, status: answer.status, ...more });
    return answer;
  };
  const refuse = (request: DoubleRequest, status: number, refusal: string, detail: string): Required<DoubleAnswer> => {
    const body = { type: `urn:leasehold:problem:${refusal}`, status, detail };
    return answered(
      request,
      'refused',
      answerTo({ status, headers: { 'content-type': 'application/problem+json' }, body }),
      { refusal, detail },
    );
  };
  /** True for a fence below the highest seen; a higher one raises it. */
  const stale = (scope: string, fence: number): boolean => {
    const seen = highest.get(scope) ?? 0;
    highest.set(scope, Math.max(seen, fence));
    return fence < seen;
  };
  const mannerOf = (request: DoubleRequest, claim: Claim): Manner => {
    const { receiver = 'as-declared' } = options;
    if (receiver !== 'as-declared') return receiver;
    return request.scene?.effect?.receiver ?? (claim.key === undefined ? 'plain' : 'idempotent');
  };

  const write = (request: DoubleRequest, claim: Claim): Required<DoubleAnswer> => {
    const manner = mannerOf(request, claim);
    const { key, fence, scope } = claim;
    if (manner === 'guarded') {
      if (key === undefined)
        return refuse(
          request,
          400,
          'missing-field',
          'The request bears no Idempotency-Key: pass the headers of the commit on.',
        );
      if (fence === undefined)
        return refuse(
          request,
          400,
          'missing-field',
          'The request bears no X-Execution-Fence: pass the headers of the commit on.',
        );
      if (stale(scope ?? key, fence)) return refuse(request, 409, 'stale-token', 'A newer owner has been seen.');
    }
    const known = manner === 'plain' || key === undefined ? undefined : made.find((one) => one.key === key);
    if (known) {
      const same =
        known.method === request.method &&
        known.url === request.url &&
        (claim.inBody || sentOf(request) === JSON.stringify(known.sent));
      if (!same) return refuse(request, 422, 'key-reused', 'The idempotency key belongs to another request.');
      return answered(request, 'replayed', known.answer, { ...(key !== undefined && { key }) });
    }
    const { method, url } = request;
    const one = {
      id: `made-${made.length + 1}`,
      method,
      url,
      sent: JSON.parse(sentOf(request)) as Json,
      ...(key !== undefined && { key }),
      ...(fence !== undefined && { fence }),
    };
    const answer = answerTo(options.answer?.(one) ?? usualAnswer(one));
    if (answer.status >= 400) return answered(request, 'refused', answer, { refusal: `status ${answer.status}` });
    const complete = { ...one, answer };
    made.push(complete);
    if (request.scene?.effect) effectKeys.set(complete, request.scene.effect.key);
    return answered(request, 'made', answer, { ...(key !== undefined && { key }) });
  };
  /** A read-back that does not ask by the key may ask by anything else: it gets what its effect made. By a key that was never passed on nothing is found. */
  const askedOtherwise = (url: string, key: string | undefined): Made | undefined =>
    key === undefined || url.includes(key) ? undefined : made.find((one) => effectKeys.get(one) === key);
  const read = (request: DoubleRequest, claim: Claim): Required<DoubleAnswer> => {
    const { scene } = request;
    if (claim.fenceInHeader && claim.fence !== undefined && mannerOf(request, claim) === 'guarded') {
      if (stale(claim.scope ?? claim.key ?? '', claim.fence))
        return refuse(request, 409, 'stale-token', 'A newer owner has been seen.');
    }
    const url = decoded(request.url);
    const found =
      made.find((one) => one.key !== undefined && (one.key === claim.key || url.includes(one.key))) ??
      made.find((one) => new RegExp(`\\b${one.id}\\b`).test(url)) ??
      (scene?.within === 'read-back' ? askedOtherwise(url, scene.effect?.key) : undefined);
    const own = options.read?.(request, found);
    if (own) return answered(request, 'read', answerTo(own));
    if (found) return answered(request, 'read', { ...found.answer, status: 200 });
    const nothing =
      scene?.within === 'read-back'
        ? { status: 404, body: { detail: 'nothing was made under this key' } }
        : { body: {} };
    return answered(request, 'read', answerTo(nothing));
  };
  const look = (request: DoubleRequest): Required<DoubleAnswer> => {
    const ask = JSON.parse(request.text) as { readonly scope?: string; readonly fence: number; readonly key: string };
    const scope = ask.scope ?? ask.key;
    let state: Json = { state: 'absent' };
    const found = made.find((one) => one.key === ask.key);
    if (stale(scope, ask.fence)) state = { state: 'stale', highest: highest.get(scope) ?? ask.fence };
    else if (found) {
      const { status, headers, body } = found.answer;
      state = { state: 'done', response: { status, headers, body: JSON.stringify(body), bodyEncoding: 'utf8' } };
    }
    return answered(request, 'read', answerTo({ body: state }));
  };
  const isLook = ({ method, url }: DoubleRequest): boolean =>
    method === 'POST' && (lookUrls.has(url) || new URL(url).pathname === LOOK_PATH);
  const answerRequest = (request: DoubleRequest): Required<DoubleAnswer> => {
    const lookUrl = request.scene?.effect?.lookUrl;
    if (lookUrl !== undefined) lookUrls.add(lookUrl);
    if (isLook(request)) return look(request);
    const claim = readClaim(request);
    return READS.includes(request.method) ? read(request, claim) : write(request, claim);
  };

  const direct = (method: string, call: CommitContext, text: string): DoubleRequest => ({
    method,
    url: `double:${call.scope}`,
    headers: new Headers(call.headers),
    text,
    scene: currentScene(),
  });
  return {
    made,
    requests,
    async fetch(input, init) {
      const request = new Request(input, init);
      request.signal.throwIfAborted();
      const { method, url, headers } = request;
      const text = await request.text();
      const { status, headers: given, body } = answerRequest({ method, url, headers, text, scene: currentScene() });
      const empty = [204, 205, 304].includes(status);
      return new Response(empty ? null : JSON.stringify(body), {
        status,
        headers: { 'content-type': 'application/json', ...given },
      });
    },
    async make(call, sent = null) {
      const answer = answerRequest(direct('POST', call, JSON.stringify(sent)));
      if (answer.status >= 400) throw new Error(`the double answered ${answer.status}: ${JSON.stringify(answer.body)}`);
      return answer.body;
    },
    async find(call) {
      const request = direct('GET', call, '');
      const answer = read(request, { ...readClaim(request), fenceInHeader: true });
      if (answer.status >= 400 && answer.status !== 404) throw new Error(`the double answered ${answer.status}`);
      return made.some((one) => one.key === call.idempotencyKey) ? answer.body : undefined;
    },
  };
}

function usualAnswer(made: Omit<Made, 'answer'>): DoubleAnswer {
  const object = typeof made.sent === 'object' && made.sent !== null && !Array.isArray(made.sent);
  const sent = object ? (made.sent as { readonly [key: string]: Json }) : {};
  const location = `${made.url.split(/[?#]/, 1)[0]}/${made.id}`;
  return { status: 201, headers: { location }, body: { status: 'made', ...sent, id: made.id } };
}

/** What was sent, as JSON text. */
function sentOf({ text }: DoubleRequest): string {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    // A form, or plain text.
    return JSON.stringify(text);
  }
}

function decoded(url: string): string {
  try {
    return decodeURIComponent(url);
  } catch {
    // A lone % sign: there is nothing to decode.
    return url;
  }
}
