import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { EmulatorError } from '../emulator-error.ts';

interface Message {
  readonly messageGroupId?: string;
  readonly sequenceNumber?: string;
}

/** What is used of the server's own class for a queue; the version of the server is pinned for its sake. */
interface Queue {
  readonly messages: Message[];
  readonly inflightMessages: Map<string, { readonly message: Message; readonly visibilityDeadline: number }>;
  readonly fifoMessages: Map<string, Message[]>;
  readonly fifoLockedGroups: Map<string, number>;
  readonly pollWaiters: { readonly resolve: () => void; readonly timer: NodeJS.Timeout }[];
  isFifo(): boolean;
  hasAvailableFifoMessages(): boolean;
  dequeue(max: number, visibility: unknown, resolver: unknown): readonly unknown[];
  dequeueFifo(max: number, visibility: unknown, resolver: unknown): readonly { readonly ReceiptHandle: string }[];
  deleteMessage(handle: string): boolean;
  changeVisibility(handle: string, seconds: number): void;
  processTimers(): void;
  waitForMessages(seconds: number): Promise<void>;
  notifyWaiters(): void;
  cancelWaiters(): void;
}

const USED = [
  'isFifo',
  'hasAvailableFifoMessages',
  'dequeue',
  'dequeueFifo',
  'deleteMessage',
  'changeVisibility',
  'processTimers',
  'waitForMessages',
  'notifyWaiters',
  'cancelWaiters',
] as const;

/**
 * What SQS does and the server does not. A receive from a FIFO queue brings several messages of one group, in order, and what comes back
 * of them keeps its order. A delete with a handle whose time is over deletes, as long as nobody received the message since. And a
 * message wakes as many polls as it takes: the server would wake them all, and answer most of them empty before their wait is over. A body
 * may have characters beyond U+FFFF.
 */
export function behaveAsSqs(): void {
  const { SqsQueue } = moduleOf('sqsStore') as { readonly SqsQueue?: { readonly prototype: Queue } };
  const queue = SqsQueue?.prototype;
  if (!queue || USED.some((method) => typeof queue[method] !== 'function')) {
    throw anotherVersion();
  }
  takeAllOfUnicode();
  receiveWholeGroups(queue);
  deleteWhatLapsed(queue);
  wakeOneByOne(queue);
}

/** Not among the package's exports, and the only way to its classes. The same module as the server's own. */
function moduleOf(name: string): unknown {
  const file = fileURLToPath(new URL(`./sqs/${name}.js`, import.meta.resolve('fauxqs')));
  return createRequire(import.meta.url)(file) as unknown;
}

function anotherVersion(): EmulatorError {
  return new EmulatorError(
    'fauxqs',
    'another version than this was made for',
    'install the version that package.json names',
  );
}

/** Characters beyond U+FFFF are allowed; the server tests one half of them at a time. */
function takeAllOfUnicode(): void {
  const { INVALID_MESSAGE_BODY_CHAR: refused } = moduleOf('sqsTypes') as {
    readonly INVALID_MESSAGE_BODY_CHAR?: RegExp;
  };
  if (!(refused instanceof RegExp)) throw anotherVersion();
  const allowed = /^[\t\n\r\u{20}-\u{d7ff}\u{e000}-\u{fffd}\u{10000}-\u{10ffff}]*$/u;
  refused.test = (body) => !allowed.test(body);
}

function receiveWholeGroups(prototype: Queue): void {
  const { dequeueFifo, changeVisibility, processTimers } = prototype;
  prototype.dequeueFifo = function dequeue(max, visibility, resolver) {
    const taken: { readonly ReceiptHandle: string }[] = [];
    const groups = new Map<string, number>();
    while (taken.length < Math.min(max, 10)) {
      const [one] = dequeueFifo.call(this, 1, visibility, resolver);
      if (!one) break;
      taken.push(one);
      const group = this.inflightMessages.get(one.ReceiptHandle)?.message.messageGroupId ?? '';
      groups.set(group, (groups.get(group) ?? 0) + 1);
      // The rest of a group is locked for everybody else only.
      this.fifoLockedGroups.delete(group);
    }
    for (const [group, count] of groups) this.fifoLockedGroups.set(group, count);
    return taken;
  };
  const inOrder = (queue: Queue): void => {
    if (!queue.isFifo()) return;
    for (const group of queue.fifoMessages.values()) {
      group.sort((a, b) => (a.sequenceNumber ?? '').localeCompare(b.sequenceNumber ?? ''));
    }
  };
  prototype.changeVisibility = function change(handle, seconds) {
    changeVisibility.call(this, handle, seconds);
    inOrder(this);
  };
  prototype.processTimers = function process() {
    processTimers.call(this);
    inOrder(this);
  };
}

function deleteWhatLapsed(prototype: Queue): void {
  const { deleteMessage, processTimers } = prototype;
  // By the message, so that nothing is remembered of messages that are gone.
  const lapsed = new WeakMap<Message, string>();
  prototype.processTimers = function process() {
    const now = Date.now();
    for (const [handle, { message, visibilityDeadline }] of this.inflightMessages) {
      if (visibilityDeadline <= now) lapsed.set(message, handle);
    }
    processTimers.call(this);
  };
  prototype.deleteMessage = function remove(handle) {
    const index = this.messages.findIndex((message) => lapsed.get(message) === handle);
    if (index === -1) return deleteMessage.call(this, handle);
    this.messages.splice(index, 1);
    return true;
  };
}

function wakeOneByOne(prototype: Queue): void {
  const { dequeue, waitForMessages, cancelWaiters } = prototype;
  // The poll of a queue that was woken and has not looked yet.
  const woken = new WeakMap<Queue, unknown>();
  const deleted = new WeakSet<Queue>();
  const available = (queue: Queue): boolean =>
    queue.isFifo() ? queue.hasAvailableFifoMessages() : queue.messages.length > 0;
  prototype.notifyWaiters = function notify() {
    if (woken.has(this)) return;
    const waiter = this.pollWaiters.shift();
    if (!waiter) return;
    woken.set(this, waiter);
    clearTimeout(waiter.timer);
    waiter.resolve();
  };
  prototype.dequeue = function take(max, visibility, resolver) {
    const taken = dequeue.call(this, max, visibility, resolver);
    woken.delete(this);
    if (available(this)) this.notifyWaiters();
    return taken;
  };
  prototype.waitForMessages = async function wait(seconds) {
    const end = Date.now() + seconds * 1000;
    for (let left = seconds; left > 0 && !deleted.has(this); left = (end - Date.now()) / 1000) {
      const over = waitForMessages.call(this, left);
      const self = this.pollWaiters.at(-1);
      await over;
      if (available(this)) return;
      if (woken.get(this) === self) woken.delete(this);
    }
  };
  prototype.cancelWaiters = function cancel() {
    deleted.add(this);
    cancelWaiters.call(this);
  };
}
