import type { BrokerCapabilities, BrokerDriver, Delivery, HandleOutcome, SendOutcome } from '../driver.ts';
import type { Clock } from '../clock.ts';
import { badOption, LeaseholdError } from '../errors.ts';
import { checkNames, type OptionNames } from '../option-names.ts';
import { badRequest, checkCall, classifyMemoryError } from './memory-errors.ts';
import { memoryQueue, QueueState, type MemoryQueue, type QueueRules } from './memory-queue.ts';

/** How a broker in memory behaves. Every capability can be chosen, and the behaviour follows it. */
export interface MemoryBrokerOptions extends Partial<BrokerCapabilities> {
  /** The queue to work on, for several drivers on one queue; default a new one. */
  readonly queue?: MemoryQueue;
  /** Where the queue's time comes from. A queue keeps the clock of its first driver. Default the machine's. */
  readonly clock?: Clock;
  readonly name?: string;
  /** With `ordering`: one receive may bring several messages of a group, in order, as SQS FIFO queues do. Default false. */
  readonly groupBatch?: boolean;
}

const OPTIONS: OptionNames<MemoryBrokerOptions> = {
  queue: true,
  clock: true,
  name: true,
  groupBatch: true,
  maxBatch: true,
  maxBatchBytes: true,
  maxBodyBytes: true,
  leaseMs: true,
  totalLeaseMs: true,
  staleHandle: true,
  maxDeliveries: true,
  releaseDelayMs: true,
  sendDelayMs: true,
  deliveryCount: true,
  ordering: true,
  deadLetter: true,
  extend: true,
};

/** A broker in memory. */
export interface MemoryBroker extends BrokerDriver<string> {
  readonly queue: MemoryQueue;
}

const DEFAULTS: BrokerCapabilities = {
  maxBatch: { send: 10, receive: 10, handles: 10 },
  maxBodyBytes: 262_144,
  leaseMs: { min: 1, max: 12 * 3_600_000, step: 1 },
  staleHandle: 'detected',
  releaseDelayMs: 12 * 3_600_000,
  sendDelayMs: 900_000,
  deliveryCount: true,
  ordering: false,
  deadLetter: 'native',
  extend: true,
};

/**
 * A broker in memory for tests, simulations and trying things out: at-least-once with a visibility lease, a handle per delivery,
 * dead letters with their reasons. Deterministic: it has no timers but those of `clock`, and every call takes effect at once.
 * Nothing survives the process.
 *
 * A call that core should never make (a batch or a lease outside the capabilities) is rejected with `bad-request`.
 *
 * @example
 * const queue = memoryQueue();
 * const first = memoryBroker({ queue, clock, staleHandle: 'silent' });
 * const second = memoryBroker({ queue }); // another process on the same queue
 */
export function memoryBroker(options: MemoryBrokerOptions = {}): MemoryBroker {
  checkNames(options, OPTIONS);
  const { queue = memoryQueue(), clock, name = 'memory', groupBatch = false, ...chosen } = options;
  if (!(queue instanceof QueueState)) throw badOption('queue', queue, 'pass what memoryQueue() gave.');
  const capabilities: BrokerCapabilities = { ...DEFAULTS, ...chosen };
  if (capabilities.maxDeliveries !== undefined) {
    if (capabilities.deadLetter === 'none') {
      throw badOption(
        'maxDeliveries',
        capabilities.maxDeliveries,
        "without a dead-letter queue nothing may be dropped; choose deadLetter 'native'.",
      );
    }
    queue.limitDeliveries(capabilities.maxDeliveries);
  }
  queue.clock(clock);
  const rules: QueueRules = { ...capabilities, groupBatch };
  const polls = new Set<() => void>();
  let closed = false;

  const each = async (
    handles: readonly string[],
    signal: AbortSignal,
    act: (handle: string) => HandleOutcome,
  ): Promise<readonly HandleOutcome[]> => {
    checkCall(name, closed, signal);
    checkCount('handles', handles.length, capabilities.maxBatch.handles);
    const outcomes = handles.map(act);
    queue.wake();
    return outcomes;
  };

  return {
    specVersion: 1,
    name,
    capabilities,
    queue,
    async send(messages, signal) {
      checkCall(name, closed, signal);
      checkCount('messages', messages.length, capabilities.maxBatch.send);
      if (messages.reduce((sum, message) => sum + sizeOf(message), 0) > (capabilities.maxBatchBytes ?? Infinity)) {
        throw badRequest('messages', `are more than ${capabilities.maxBatchBytes} bytes in all.`);
      }
      const outcomes = messages.map((message): SendOutcome => {
        const tooLarge = message.body.byteLength > capabilities.maxBodyBytes;
        if (tooLarge || (message.delayMs ?? 0) > capabilities.sendDelayMs) return { failed: 'invalid' };
        return { messageId: queue.send(message) };
      });
      queue.wake();
      return outcomes;
    },
    async receive({ max, leaseMs, waitMs }, signal) {
      checkCall(name, closed, signal);
      checkCount('max', max, capabilities.maxBatch.receive);
      checkLease(leaseMs, capabilities);
      const granted = Math.min(leaseMs, capabilities.totalLeaseMs ?? Infinity);
      const taken = queue.take(max, granted, rules);
      if (taken.length > 0 || !(waitMs > 0)) return taken;
      return new Promise<readonly Delivery<string>[]>((resolve, reject) => {
        let stopWaiting = (): void => undefined;
        const end = (): void => {
          timer.cancel();
          stopWaiting();
          signal.removeEventListener('abort', aborted);
          polls.delete(shut);
        };
        const aborted = (): void => {
          end();
          reject(signal.reason as Error);
        };
        const shut = (): void => {
          end();
          reject(new LeaseholdError('closed', `${name} was closed while a receive was waiting; nothing was taken.`));
        };
        const give = (deliveries: readonly Delivery<string>[]): void => {
          end();
          resolve(deliveries);
        };
        const timer = queue.clock().clock.timer(waitMs, () => give([]));
        signal.addEventListener('abort', aborted, { once: true });
        polls.add(shut);
        stopWaiting = queue.wait(() => {
          const late = queue.take(max, granted, rules);
          if (late.length > 0) give(late);
          return late.length > 0;
        });
      });
    },
    extend(handles, leaseMs, signal) {
      return each(handles, signal, (handle) => {
        checkLease(leaseMs, capabilities);
        return queue.extend(handle, leaseMs, rules);
      });
    },
    complete: (handles, signal) => each(handles, signal, (handle) => queue.complete(handle, rules)),
    release: (handles, delayMs, signal) => each(handles, signal, (handle) => queue.release(handle, delayMs, rules)),
    async reject(handle, why, signal) {
      const [outcome] = await each([handle], signal, (only) => queue.reject(only, why, rules));
      return outcome as HandleOutcome;
    },
    classify: classifyMemoryError,
    async deadLetters({ limit, cursor }, signal) {
      checkCall(name, closed, signal);
      const from = cursor === undefined ? 0 : Number(cursor);
      const letters = queue.deadLetters.slice(from, from + limit);
      const more = queue.deadLetters.length > from + limit;
      return { letters, ...(more && { cursor: String(from + limit) }) };
    },
    async redrive(messageIds, signal) {
      checkCall(name, closed, signal);
      return queue.redrive((letter) => messageIds.includes(letter.messageId));
    },
    async close() {
      closed = true;
      for (const shut of polls) shut();
    },
  };
}

function sizeOf(message: { readonly body: Uint8Array; readonly attributes: Readonly<Record<string, string>> }): number {
  return Object.entries(message.attributes).reduce(
    (sum, [name, value]) => sum + Buffer.byteLength(name) + Buffer.byteLength(value),
    message.body.byteLength,
  );
}

function checkCount(field: string, count: number, most: number): void {
  if (!(count >= 1 && count <= most)) throw badRequest(field, `are ${count}: one call takes 1 to ${most}.`);
}

function checkLease(leaseMs: number, { leaseMs: limits }: BrokerCapabilities): void {
  if (!(leaseMs >= limits.min && leaseMs <= limits.max && leaseMs % limits.step === 0)) {
    throw badRequest(
      'leaseMs',
      `is ${leaseMs}: this queue grants ${limits.min} to ${limits.max} in steps of ${limits.step}.`,
    );
  }
}
