import assert from 'node:assert/strict';
import type { BrokerCapabilities, BrokerDriver, Delivery, OutgoingMessage } from '@leasehold/core';
import type { BrokerHarness } from './conformance-case.ts';
import { never } from './waiting.ts';

const bytes = new TextEncoder();
const text = new TextDecoder();

/** A message with this text and no attributes. */
export function message(body: string, more: Partial<OutgoingMessage> = {}): OutgoingMessage {
  return { body: bytes.encode(body), attributes: {}, ...more };
}

/** The text of a delivery. */
export function textOf(delivery: { readonly body: Uint8Array }): string {
  return text.decode(delivery.body);
}

/** A lease to wait out: the shortest the backend allows, but at least a second of real time. */
export function shortLease(harness: BrokerHarness, { leaseMs }: BrokerCapabilities): number {
  const wanted = harness.advance ? 10_000 : 1_000;
  return Math.min(leaseMs.max, Math.max(leaseMs.min, Math.ceil(wanted / leaseMs.step) * leaseMs.step));
}

/** A lease that does not end while a case runs. */
export function longLease({ leaseMs }: BrokerCapabilities): number {
  return Math.min(leaseMs.max, Math.max(leaseMs.min, Math.ceil(60_000 / leaseMs.step) * leaseMs.step));
}

/** Sends all of `messages` in batches the backend takes; every one has to be accepted. Gives the message ids in order. */
export async function send(driver: BrokerDriver, messages: readonly OutgoingMessage[]): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let from = 0; from < messages.length; from += driver.capabilities.maxBatch.send) {
    const batch = messages.slice(from, from + driver.capabilities.maxBatch.send);
    const outcomes = await driver.send(batch, never());
    assert.equal(outcomes.length, batch.length, 'send gives one outcome per message');
    for (const outcome of outcomes) {
      assert.ok('messageId' in outcome, `a message was not accepted: ${JSON.stringify(outcome)}`);
      ids.push(outcome.messageId);
    }
  }
  return ids;
}

/** Receives until `count` deliveries are in hand; fails when the queue does not have that many to give. */
export async function take(
  harness: BrokerHarness,
  driver: BrokerDriver,
  count: number,
  leaseMs: number = longLease(driver.capabilities),
): Promise<readonly Delivery[]> {
  const taken: Delivery[] = [];
  for (let tries = 0; taken.length < count && tries < count + 5; tries++) {
    const max = Math.min(count - taken.length, driver.capabilities.maxBatch.receive);
    const got = await driver.receive({ max, leaseMs, waitMs: harness.advance ? 0 : 1_000 }, never());
    assert.ok(got.length <= max, `receive gave ${got.length} deliveries when asked for at most ${max}`);
    taken.push(...got);
  }
  assert.equal(taken.length, count, `the queue gave ${taken.length} deliveries, not ${count}`);
  return taken;
}

/** Receives one delivery. */
export async function takeOne(harness: BrokerHarness, driver: BrokerDriver, leaseMs?: number): Promise<Delivery> {
  const [only] = await take(harness, driver, 1, leaseMs);
  return only as Delivery;
}

/** Everything that can be had now without waiting, as texts in the order received. */
export async function texts(
  driver: BrokerDriver,
  leaseMs: number = longLease(driver.capabilities),
): Promise<readonly string[]> {
  const found: string[] = [];
  // A broker that hands the same messages out again and again would never be empty.
  while (found.length <= 1_000) {
    const got = await driver.receive({ max: driver.capabilities.maxBatch.receive, leaseMs, waitMs: 0 }, never());
    if (got.length === 0) return found;
    found.push(...got.map(textOf));
  }
  assert.fail(`the queue never runs dry; it began with ${found.slice(0, 5).join(', ')}`);
}

/** Fails when the queue hands anything out now. */
export async function nothing(driver: BrokerDriver, when: string): Promise<void> {
  assert.deepEqual(await texts(driver), [], `nothing may be handed out ${when}`);
}
