import { awsError, errorAnswer, type AwsError, type AwsFailure } from './aws-errors.ts';
import { answerWith, jsonAnswer, objectsIn, requestWith, type JsonObject } from './exchange.ts';
import { NO_ANSWER, type Fault, type FaultedCall } from './fault-plan.ts';

/** The call is refused and never applied: throttling, an outage, missing rights. Plan it `times: n` for n refusals in a row. */
export function failBefore(failure: AwsFailure | AwsError = 'unavailable'): Fault {
  return ({ request }) => Promise.resolve(errorAnswer(request, awsError(request, failure)));
}

/** The call is applied, but its answer is lost: the client's connection is closed, after `afterMs`. */
export function dropAnswer(afterMs = 0): Fault {
  return async (call) => {
    await call.apply();
    if (afterMs > 0) await call.sleep(afterMs, call.signal);
    return NO_ANSWER;
  };
}

/** The call is applied at once and answered after `ms`. */
export function delayAnswer(ms: number): Fault {
  return async (call) => {
    const answer = await call.apply();
    await call.sleep(ms, call.signal);
    return answer;
  };
}

/** The call takes `ms` to reach the server. A client that gives up in between stops it on its way. */
export function delayCall(ms: number): Fault {
  return async (call) => {
    await call.sleep(ms, call.signal);
    return call.apply();
  };
}

/** The call never reaches the server, and nothing is answered until the client gives up. */
export function hang(): Fault {
  return (call) => call.hang();
}

/**
 * The client is cut off at once (or hears nothing until it gives up, with `tell: 'on-abort'`), and yet the call is applied
 * `afterMs` after it was made, whatever became of its client.
 */
export function applyLater(afterMs: number, tell: 'now' | 'on-abort' = 'now'): Fault {
  return async (call) => {
    call.later(afterMs, () => call.apply());
    return tell === 'on-abort' ? call.hang() : NO_ANSWER;
  };
}

/** How an entry of a batch fails. */
export interface EntryFailure {
  /** Default `InternalError`. */
  readonly code?: string;
  /** Default false. */
  readonly senderFault?: boolean;
  readonly message?: string;
}

/** SQS batches: the call succeeds, but the entries that `which` accepts (default all) fail and are not applied. */
export function failEntries(
  failure: string | EntryFailure = {},
  which: (index: number, entry: JsonObject) => boolean = () => true,
): Fault {
  const given = typeof failure === 'string' ? { code: failure } : failure;
  const { code = 'InternalError', senderFault = false, message = code } = given;
  return async (call) => {
    const entries = objectsIn(call.request.json, 'Entries');
    const fails = entries.map((entry, index) => which(index, entry));
    const good = entries.filter((_, index) => !fails[index]);
    const bad = entries.filter((_, index) => fails[index]);
    const answer =
      good.length === 0
        ? jsonAnswer({})
        : await call.apply(requestWith(call.request, { ...call.request.json, Entries: good }));
    const failed = bad.map(({ Id }) => ({ Id, SenderFault: senderFault, Code: code, Message: message }));
    if (answer.status !== 200 || failed.length === 0) return answer;
    return answerWith(answer, { ...answer.json, Failed: [...objectsIn(answer.json, 'Failed'), ...failed] });
  };
}

/** SQS batches: the call is applied and succeeds, but its answer has no list of successes. */
export function unconfirmedEntries(): Fault {
  return async (call) => {
    const answer = await call.apply();
    const { Successful: _, ...rest } = answer.json;
    return answer.status === 200 ? answerWith(answer, rest) : answer;
  };
}

/**
 * SQS deletes and visibility changes, single or in a batch: nothing is applied, and every handle is answered with `outcome`. `done` is
 * what a standard queue says of a stale handle, `gone` what a FIFO queue says.
 */
export function pretend(outcome: 'done' | 'gone' | AwsError): Fault {
  return ({ request }) => {
    const type = typeof outcome === 'object' ? outcome.type : 'InvalidParameterValue';
    const message = typeof outcome === 'object' ? (outcome.message ?? type) : 'Reason: The receipt handle has expired.';
    const entries = objectsIn(request.json, 'Entries');
    if (outcome === 'done') {
      return Promise.resolve(jsonAnswer(entries.length > 0 ? { Successful: entries.map(({ Id }) => ({ Id })) } : {}));
    }
    if (entries.length === 0) return Promise.resolve(errorAnswer(request, { ...awsOutcome(outcome), type, message }));
    const failed = entries.map(({ Id }) => ({ Id, SenderFault: true, Code: type, Message: message }));
    return Promise.resolve(jsonAnswer({ Failed: failed }));
  };
}

/** `ReceiveMessage`: what it brings is delivered once more, under a new handle, while the client still believes it holds the first. */
export function duplicateDelivery(): Fault {
  return async (call) => {
    const answer = await call.apply();
    const messages = objectsIn(answer.json, 'Messages');
    if (messages.length > 0) await makeVisible(call, messages);
    return answer;
  };
}

function awsOutcome(outcome: 'gone' | AwsError): Partial<AwsError> {
  return typeof outcome === 'object' ? outcome : {};
}

async function makeVisible(call: FaultedCall, messages: readonly JsonObject[]): Promise<void> {
  const { QueueUrl } = call.request.json;
  const entries = messages.map(({ ReceiptHandle }, index) => ({
    Id: `m${index}`,
    ReceiptHandle,
    VisibilityTimeout: 0,
  }));
  await call.apply(requestWith(call.request, { QueueUrl, Entries: entries }, 'ChangeMessageVisibilityBatch'));
}
