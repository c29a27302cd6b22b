import { errorAnswer } from './aws-errors.ts';
import {
  answerWith,
  jsonAnswer,
  objectsIn,
  requestWith,
  type JsonObject,
  type ProxyAnswer,
  type ProxyRequest,
} from './exchange.ts';
import { Receipts } from './receipts.ts';

/** What AWS does and the server behind the proxy does not. */
export interface SqsRuleSettings {
  /**
   * What becomes of a handle whose time is over or whose message was received again. `silent`, as standard queues: 200 without effect
   * (a delete deletes, where nobody received the message since). `refused`, as FIFO queues: an error. `by-queue`: as the queue's name
   * says. `lenient`: as the server behind the proxy has it, which revives what it has not yet noticed to be over; the limit is off, too.
   */
  staleHandle: 'by-queue' | 'silent' | 'refused' | 'lenient';
  /** The longest a message stays invisible from its receive on, in milliseconds; 12 hours. */
  totalVisibilityMs: number;
}

type Forward = (request: ProxyRequest) => Promise<ProxyAnswer>;
type Verdict = 'forward' | 'done' | { readonly code: string; readonly message: string };

/** One handle of a request, single or in a batch. */
interface Entry {
  readonly json: JsonObject;
  readonly handle: string;
  /** Seconds; absent in a delete. */
  readonly visibility?: number;
}

const GARBAGE = { code: 'ReceiptHandleIsInvalid', message: 'The input receipt handle is invalid.' };

/** The rules of SQS about receipt handles and total visibility, between the proxy and a server that lacks them. */
export class SqsRules {
  readonly #settings: SqsRuleSettings;
  readonly #endpoint: string;
  readonly #now: () => number;
  readonly #queues = new Map<string, Receipts>();

  constructor(settings: SqsRuleSettings, endpoint: string, now: () => number) {
    this.#settings = settings;
    this.#endpoint = endpoint;
    this.#now = now;
  }

  readonly apply = async (request: ProxyRequest, forward: Forward): Promise<ProxyAnswer> => {
    switch (request.operation) {
      case 'CreateQueue':
      case 'GetQueueUrl':
      case 'ListQueues':
        return this.#learnQueue(request, await forward(request));
      case 'SetQueueAttributes':
        return this.#learnVisibility(queueName(request.json['QueueUrl']), request, await forward(request));
      case 'DeleteQueue':
      case 'PurgeQueue': {
        const answer = await forward(request);
        if (answer.status === 200) this.#queue(request).forget();
        return answer;
      }
      case 'ReceiveMessage':
        return this.#learnReceipts(request, await forward(request));
      case 'DeleteMessage':
      case 'ChangeMessageVisibility':
        return this.#single(request, forward);
      case 'DeleteMessageBatch':
      case 'ChangeMessageVisibilityBatch':
        return this.#batch(request, forward);
      default:
        return forward(request);
    }
  };

  #queue(request: ProxyRequest): Receipts {
    const name = queueName(request.json['QueueUrl']);
    let queue = this.#queues.get(name);
    if (!queue) this.#queues.set(name, (queue = new Receipts()));
    return queue;
  }

  /** The server names queues by a host of its own; clients shall come through the proxy. */
  #learnQueue(request: ProxyRequest, answer: ProxyAnswer): ProxyAnswer {
    const mend = (url: unknown): unknown =>
      typeof url === 'string' ? `${this.#endpoint}${new URL(url).pathname}` : url;
    const { QueueUrl: url, QueueUrls: urls } = answer.json;
    if (Array.isArray(urls)) return answerWith(answer, { ...answer.json, QueueUrls: urls.map(mend) });
    if (typeof url !== 'string') return answer;
    this.#learnVisibility(queueName(url), request, answer);
    return answerWith(answer, { ...answer.json, QueueUrl: mend(url) });
  }

  #learnVisibility(name: string, request: ProxyRequest, answer: ProxyAnswer): ProxyAnswer {
    const attributes = request.json['Attributes'] as JsonObject | undefined;
    const seconds = Number(attributes?.['VisibilityTimeout']);
    if (answer.status === 200 && Number.isFinite(seconds)) {
      const queue = this.#queues.get(name) ?? new Receipts();
      queue.visibilityMs = seconds * 1000;
      this.#queues.set(name, queue);
    }
    return answer;
  }

  #learnReceipts(request: ProxyRequest, answer: ProxyAnswer): ProxyAnswer {
    const queue = this.#queue(request);
    const asked = request.json['VisibilityTimeout'];
    const visibilityMs = typeof asked === 'number' ? asked * 1000 : queue.visibilityMs;
    for (const { MessageId: id, ReceiptHandle: handle } of objectsIn(answer.json, 'Messages')) {
      queue.received(String(id), String(handle), this.#now(), visibilityMs);
    }
    return answer;
  }

  async #single(request: ProxyRequest, forward: Forward): Promise<ProxyAnswer> {
    const entry = entryOf(request.json);
    let verdict = this.#judge(request, entry);
    if (verdict === 'forward') {
      const answer = await forward(request);
      if (answer.status === 200) this.#took(request, entry);
      // The server noticed the end first, by the time that an answer takes.
      if (answer.status === 200 || !String(answer.json['__type']).endsWith('#MessageNotInflight')) return answer;
      verdict = this.#stale(request, entry);
    }
    if (verdict === 'done' || verdict === 'forward') return jsonAnswer({});
    return errorAnswer(request, { type: verdict.code, message: verdict.message });
  }

  async #batch(request: ProxyRequest, forward: Forward): Promise<ProxyAnswer> {
    const entries = objectsIn(request.json, 'Entries').map(entryOf);
    const verdicts = entries.map((entry) => this.#judge(request, entry));
    const passed = entries.filter((_, index) => verdicts[index] === 'forward');
    // Nothing to add to what the server says, a malformed request included.
    const all = passed.length === entries.length;
    const answer =
      passed.length > 0 || all
        ? await forward(
            all ? request : requestWith(request, { ...request.json, Entries: passed.map(({ json }) => json) }),
          )
        : jsonAnswer({});
    if (answer.status !== 200) return answer;
    const confirmed = new Set(objectsIn(answer.json, 'Successful').map(({ Id }) => Id));
    const refused = new Map(objectsIn(answer.json, 'Failed').map((failure) => [failure['Id'], failure]));
    const successful: JsonObject[] = [];
    const failed: JsonObject[] = [];
    for (const [index, entry] of entries.entries()) {
      const { Id } = entry.json;
      let verdict = verdicts[index] ?? 'forward';
      const failure = refused.get(Id);
      if (verdict === 'forward' && failure?.['Code'] === GARBAGE.code) verdict = this.#stale(request, entry);
      if (typeof verdict === 'object')
        failed.push({ Id, SenderFault: true, Code: verdict.code, Message: verdict.message });
      else if (verdict === 'forward' && failure) failed.push(failure);
      else if (verdict === 'done' || confirmed.has(Id)) successful.push({ Id });
      if (verdict === 'forward' && confirmed.has(Id)) this.#took(request, entry);
    }
    return answerWith(answer, {
      ...(successful.length > 0 ? { Successful: successful } : {}),
      ...(failed.length > 0 ? { Failed: failed } : {}),
    });
  }

  #judge(request: ProxyRequest, entry: Entry): Verdict {
    if (this.#settings.staleHandle === 'lenient') return 'forward';
    const queue = this.#queue(request);
    const now = this.#now();
    const deletes = entry.visibility === undefined;
    switch (queue.standing(entry.handle, now)) {
      case 'unknown':
        return GARBAGE;
      case 'deleted':
        return deletes ? 'done' : unavailable(entry.handle);
      case 'older':
        return this.#stale(request, entry);
      case 'lapsed':
        return deletes && !this.#refuses(request) ? 'forward' : this.#stale(request, entry);
      case 'live': {
        const until = now + (entry.visibility ?? 0) * 1000;
        const limit = (queue.receivedAt(entry.handle) ?? now) + this.#settings.totalVisibilityMs;
        return until > limit ? beyondTheLimit(entry.visibility, this.#settings.totalVisibilityMs) : 'forward';
      }
    }
  }

  #stale(request: ProxyRequest, { handle }: Entry): Verdict {
    return this.#refuses(request) ? invalid(handle, 'ReceiptHandle', 'The receipt handle has expired.') : 'done';
  }

  #refuses(request: ProxyRequest): boolean {
    const { staleHandle } = this.#settings;
    if (staleHandle !== 'by-queue') return staleHandle === 'refused';
    return queueName(request.json['QueueUrl']).endsWith('.fifo');
  }

  #took(request: ProxyRequest, { handle, visibility }: Entry): void {
    const queue = this.#queue(request);
    if (visibility === undefined) queue.deleted(handle);
    else queue.changed(handle, this.#now() + visibility * 1000);
  }
}

function entryOf(json: JsonObject): Entry {
  const { ReceiptHandle: handle, VisibilityTimeout: visibility } = json;
  return { json, handle: String(handle), ...(typeof visibility === 'number' ? { visibility } : {}) };
}

function queueName(url: unknown): string {
  return typeof url === 'string' ? url.slice(url.lastIndexOf('/') + 1) : '';
}

function invalid(value: unknown, parameter: string, reason: string): Verdict {
  return {
    code: 'InvalidParameterValue',
    message: `Value ${String(value)} for parameter ${parameter} is invalid. Reason: ${reason}`,
  };
}

function unavailable(handle: string): Verdict {
  return invalid(handle, 'ReceiptHandle', 'Message does not exist or is not available for visibility timeout change.');
}

function beyondTheLimit(visibility: number | undefined, limitMs: number): Verdict {
  const reason = `Total VisibilityTimeout for the message is beyond the limit [${limitMs / 1000} seconds]`;
  return invalid(visibility, 'VisibilityTimeout', reason);
}
