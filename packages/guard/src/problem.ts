/** What a problem answer is about. Its `type` is `urn:leasehold:problem:` and this name; both are stable. */
export type ProblemName =
  | 'missing-field'
  | 'malformed-field'
  | 'malformed-body'
  | 'body-too-large'
  | 'method-not-allowed'
  | 'stale-token'
  | 'key-reused'
  | 'in-progress'
  | 'in-doubt'
  | 'response-not-kept'
  | 'nothing-happened'
  | 'outcome-unknown'
  | 'store-unavailable';

/** An answer in place of the handler's, before it is turned into `application/problem+json`. */
export interface Problem {
  readonly name: ProblemName;
  readonly detail: string;
  /** The header or JSON member at fault. */
  readonly field?: string;
  /** The highest token seen in the scope, with `stale-token`. */
  readonly highest?: number;
  /** When asking again makes sense. */
  readonly retryAfterSeconds?: number;
  /** The status the handler gave, with `response-not-kept`. */
  readonly originalStatus?: number;
}

const FORMS: Readonly<Record<ProblemName, readonly [status: number, title: string]>> = {
  'missing-field': [400, 'A required field is missing'],
  'malformed-field': [400, 'A field cannot be read'],
  'malformed-body': [400, 'The body cannot be read'],
  'body-too-large': [413, 'The body is too large'],
  'method-not-allowed': [405, 'This endpoint takes POST'],
  'stale-token': [409, 'A newer owner has been seen'],
  'key-reused': [422, 'The idempotency key belongs to another request'],
  'in-progress': [409, 'A request with this key is in progress'],
  'in-doubt': [409, 'The outcome of this key is in doubt'],
  'response-not-kept': [410, 'It was done, but the response was too large to keep'],
  'nothing-happened': [503, 'Nothing happened'],
  'outcome-unknown': [503, 'The outcome could not be recorded'],
  'store-unavailable': [503, 'The guard cannot reach its store'],
};

/** The HTTP status of a problem. */
export function problemStatus(name: ProblemName): number {
  return FORMS[name][0];
}

/** The problem as an HTTP answer (RFC 9457). Holds nothing of the request but names of fields. */
export function problemResponse(problem: Problem): Response {
  const [status, title] = FORMS[problem.name];
  const headers = new Headers({ 'content-type': 'application/problem+json', 'cache-control': 'no-store' });
  if (problem.retryAfterSeconds !== undefined) headers.set('retry-after', String(problem.retryAfterSeconds));
  if (problem.name === 'method-not-allowed') headers.set('allow', 'POST');
  const { name, detail, field, highest, originalStatus } = problem;
  const members = { type: `urn:leasehold:problem:${name}`, title, status, detail, field, highest, originalStatus };
  return new Response(JSON.stringify(members), { status, headers });
}
