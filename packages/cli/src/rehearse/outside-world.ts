import { currentScene, receiverDouble, type AnsweredRequest } from '@leasehold/worker/testing';
import { filled, type DoubleRule } from './doubles-file.ts';

/** What answers the handler's requests in one run, and remembers them. */
export interface OutsideWorld {
  readonly fetch: typeof globalThis.fetch;
  readonly requests: readonly AnsweredRequest[];
}

const READS = ['GET', 'HEAD', 'OPTIONS'];
/** What guards, and some providers, set on an answer they gave before. */
const REPLAYED = ['idempotent-replayed', 'idempotency-replayed'];

/** Answers from memory: as the file of `--doubles` says, else like a receiver that keeps what the effects say it does. */
export function doubledWorld(rules: readonly DoubleRule[]): OutsideWorld {
  const ruleOf = (method: string, url: string): DoubleRule | undefined => rules.find((rule) => rule.fits(method, url));
  return receiverDouble({
    answer(made) {
      const rule = ruleOf(made.method, made.url);
      return rule && { status: 201, ...filled(rule.answer, made) };
    },
    read({ method, url }, made) {
      const rule = ruleOf(method, url);
      if (!rule) return undefined;
      return filled(made ? rule.answer : (rule.absent ?? rule.answer), made);
    },
  });
}

/** Lets every request go out, and looks at what came back. */
export function liveWorld(send: typeof globalThis.fetch): OutsideWorld {
  const requests: AnsweredRequest[] = [];
  /** The answers under each key: a receiver that says the same again did nothing again. */
  const bodies = new Map<string, string>();
  /** Known from the effects: who closes a task looks from outside of the handler. */
  const looks = new Set<string>();
  return {
    requests,
    async fetch(input, init) {
      const request = new Request(input, init);
      const { method, url, headers } = request;
      const text = await request.clone().text();
      const scene = currentScene();
      if (scene?.effect?.lookUrl !== undefined) looks.add(scene.effect.lookUrl);
      const response = await send(request);
      const key = headers.get('idempotency-key') ?? undefined;
      const seen = { method, url, headers, text, scene, status: response.status, ...(key !== undefined && { key }) };
      if (READS.includes(method) || looks.has(url)) requests.push({ ...seen, outcome: 'read' });
      else if (!response.ok) requests.push({ ...seen, outcome: 'refused', refusal: `status ${response.status}` });
      else {
        const place = `${method} ${url} ${key}`;
        const body = await response.clone().text();
        const known = key !== undefined && bodies.get(place) === body;
        bodies.set(place, body);
        requests.push({
          ...seen,
          outcome: known || REPLAYED.some((name) => response.headers.has(name)) ? 'replayed' : 'made',
        });
      }
      return response;
    },
  };
}
