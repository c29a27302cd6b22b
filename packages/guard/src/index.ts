export { FENCE_HEADER, KEY_HEADER, SCOPE_HEADER } from './claim.ts';
export type { ContextFor, FencedContext, GuardContext, KeyedContext } from './context.ts';
export { GUARD_CHANNEL, onGuardEvent, type GuardEvent, type GuardEventName } from './events.ts';
export { openGate, type Gate } from './gate.ts';
export { guard, type GuardHandler } from './guard.ts';
export { guardRequest, type GuardedRun } from './guard-request.ts';
export type { GuardedRequest } from './identify.ts';
export { lookRequest, type LookAnswer, type LookAsk, type LookedResponse } from './look.ts';
export { isNothingHappened, NothingHappened } from './nothing-happened.ts';
export {
  LOOK_PATH,
  type Doubt,
  type DoubtAnswer,
  type Extracted,
  type GuardOptions,
  type Requirement,
} from './options.ts';
export type { ProblemName } from './problem.ts';
export { REPLAY_HEADER } from './stored-response.ts';
export {
  transactionalGuard,
  type PlainResponse,
  type Prepare,
  type PrepareContext,
  type TransactionalGuardOptions,
  type TransactAsk,
  type TransactionalGuardStore,
  type TransactVerdict,
} from './transactional-guard.ts';
