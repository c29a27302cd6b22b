import { describe, expect, test } from 'vitest';
import { brokerCases, guardCases, ledgerCases, pairCases, runCases, type CaseHarness } from '@leasehold/contract';
import type { Peer, Service } from './peer-server.ts';
import { PEERS_VARIABLE } from './run-contract.ts';
import { EXCLUSIONS } from './exclusions.ts';
import { guardHarness, ledgerHarness, pairHarness, queueHarness, type QueueKind } from './harness.ts';

const QUEUES: Readonly<Record<string, QueueKind>> = {
  'a standard queue': {},
  'a standard queue that gives a message up after 4 receives': { maxReceiveCount: 4 },
  'a FIFO queue that gives a message up after 4 receives': { fifo: true, maxReceiveCount: 4 },
};

const PAIRED_QUEUES: Readonly<Record<string, QueueKind>> = {
  'a standard queue that gives a message up after 12 receives': { maxReceiveCount: 12 },
  'a FIFO queue': { fifo: true },
};

const told = process.env[PEERS_VARIABLE];
if (told === undefined)
  throw new Error('No server was named: start this with npm run test:peers or npm run test:docker.');
const peers = JSON.parse(told) as readonly Peer[];
const having = (service: Service): readonly Peer[] => peers.filter(({ services }) => services.includes(service));
const excluded = new Set<(typeof EXCLUSIONS)[number]>();

/** Registers a case as a test, or, where it is excluded, as a test that it fails there for the reason given. */
function on(peer: string, store: string): (name: string, run: () => Promise<void>) => void {
  return (name, run) => {
    const exclusion = EXCLUSIONS.find(
      (one) => one.peer === peer && one.name === name && (one.on === undefined || one.on === store),
    );
    if (exclusion) excluded.add(exclusion);
    const title = exclusion ? `does not hold on ${peer}, since ${exclusion.why}: ${name}` : name;
    const register: (title: string, run: () => Promise<void>) => void = test;
    register(title, exclusion ? () => expect(run()).rejects.toThrow(exclusion.fails) : run);
  };
}

/** What a driver on such a store declares once it is open. */
async function declared<Driver extends object, Found>(
  made: Promise<CaseHarness<Driver>>,
  read: (driver: Driver) => Found,
): Promise<Found> {
  const harness = await made;
  const found = read(await harness.open());
  await harness.dispose();
  return found;
}

for (const { name: peer, endpoint } of having('sqs')) {
  for (const [store, kind] of Object.entries(QUEUES)) {
    const capabilities = await declared(queueHarness(endpoint, kind), (driver) => driver.capabilities);
    describe.concurrent(`${peer}: ${store}`, () => {
      runCases(brokerCases, () => queueHarness(endpoint, kind), { test: on(peer, store), capabilities });
    });
  }
}

const tables = having('dynamodb');
for (const { name: peer, endpoint } of tables) {
  const capabilities = await declared(ledgerHarness(endpoint), (driver) => driver.capabilities);
  describe.concurrent(`${peer}: a ledger`, () => {
    runCases(ledgerCases, () => ledgerHarness(endpoint), { test: on(peer, 'a ledger'), capabilities });
  });
  describe.concurrent(`${peer}: a guard`, () => {
    runCases(guardCases, () => guardHarness(endpoint), { test: on(peer, 'a guard'), capabilities: undefined });
  });
}

// A server that has no DynamoDB is paired with one that has.
for (const { name: peer, endpoint, services } of having('sqs')) {
  const table = services.includes('dynamodb') ? endpoint : tables[0]?.endpoint;
  if (table === undefined) continue;
  for (const [store, kind] of Object.entries(PAIRED_QUEUES)) {
    const make = () => pairHarness(endpoint, table, kind);
    const capabilities = await declared(make(), ({ broker, ledger }) => ({
      broker: broker.capabilities,
      ledger: ledger.capabilities,
    }));
    describe.concurrent(`${peer}: ${store}, and a ledger`, () => {
      runCases(pairCases, make, { test: on(peer, `${store}, and a ledger`), capabilities });
    });
  }
}

test('every server answered for was asked, and every exclusion names a case that it has', () => {
  expect(peers.length).toBeGreaterThan(0);
  const names = new Set(peers.map(({ name }) => name));
  expect(EXCLUSIONS.filter((one) => names.has(one.peer) && !excluded.has(one))).toEqual([]);
});
