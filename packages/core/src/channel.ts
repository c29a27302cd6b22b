import { channel } from 'node:diagnostics_channel';
import type { Ownership } from './ownership.ts';
import type { Stage } from './record.ts';

/** The name of the `node:diagnostics_channel` that all events of Leasehold are published on. */
export const EVENT_CHANNEL = 'leasehold:events';

/** What can happen, as it is named in logs. */
export type EventName =
  | 'task_enqueued'
  | 'task_claimed'
  | 'task_replayed'
  | 'task_deferred'
  | 'task_left_to_lapse'
  | 'duplicate_delivery'
  | 'heartbeat_ok'
  | 'heartbeat_unknown'
  | 'heartbeat_lost'
  | 'delivery_gone'
  | 'broker_call_failed'
  | 'ledger_call_failed'
  | 'late_answer'
  | 'stage_entered'
  | 'vague_reason'
  | 'tool_request_started'
  | 'tool_request_finished'
  | 'effect_intended'
  | 'effect_read_back'
  | 'effect_verified'
  | 'effect_in_doubt'
  | 'task_settled'
  | 'follow_ups_sent'
  | 'result_rejected'
  | 'task_released'
  | 'task_handed_off'
  | 'task_dead_lettered'
  | 'task_cancelled'
  | 'task_closing'
  | 'task_reopened'
  | 'token_raised'
  | 'human_asked'
  | 'lease_cap_near'
  | 'handler_aborted'
  | 'handler_leaked'
  | 'drain_started'
  | 'drain_finished'
  | 'warning';

/** One event. Never holds payloads, prompts, answers, handles, credentials or raw error bodies. */
export interface LeaseholdEvent {
  readonly name: EventName;
  /** Wall-clock epoch milliseconds, for people. */
  readonly at: number;
  readonly taskId?: string;
  readonly taskType?: string;
  readonly token?: number;
  readonly stage?: Stage;
  readonly owner?: string;
  readonly attempt?: number;
  readonly durationMs?: number;
  readonly payloadHash?: string;
  readonly errorClass?: string;
  readonly errorCode?: string;
  readonly cause?: string;
  readonly effect?: string;
  readonly externalSystem?: string;
  readonly externalId?: string;
  readonly requestId?: string;
  readonly resultHash?: string;
  readonly ownership?: Ownership;
  /** Wall-clock time of the last confirmed write, where ownership is in question. */
  readonly lastConfirmedAt?: number;
  readonly reason?: string;
  readonly count?: number;
  readonly delayMs?: number;
}

const events = channel(EVENT_CHANNEL);

/** Publishes an event; costs nothing when nobody listens. */
export function publish(event: LeaseholdEvent): void {
  if (events.hasSubscribers) events.publish(event);
}

/** Whether anybody listens: an event that nobody gets need not be made. */
export function isHeard(): boolean {
  return events.hasSubscribers;
}

/** Calls `listener` for every event of this process until the returned function is called. */
export function subscribe(listener: (event: LeaseholdEvent) => void): () => void {
  const onMessage = (message: unknown): void => listener(message as LeaseholdEvent);
  events.subscribe(onMessage);
  return () => {
    events.unsubscribe(onMessage);
  };
}
