import type { BrokerCase, GuardCase, LedgerCase, PairCase } from './conformance-case.ts';
import { deliveryCases } from './broker-delivery-cases.ts';
import { leaseCases } from './broker-lease-cases.ts';
import { settleCases } from './broker-settle-cases.ts';
import { holdCases } from './guard-hold-cases.ts';
import { lookCases } from './guard-look-cases.ts';
import { repeatCases } from './guard-repeat-cases.ts';
import { verdictCases } from './guard-verdict-cases.ts';
import { ledgerLeaseCases } from './ledger-lease-cases.ts';
import { listCases } from './ledger-list-cases.ts';
import { pairAnswerCases } from './pair-answer-cases.ts';
import { pairDeliveryCases } from './pair-delivery-cases.ts';
import { pairLeaseCases } from './pair-lease-cases.ts';
import { pairRecordCases } from './pair-record-cases.ts';
import { writeCases } from './ledger-write-cases.ts';

export type {
  BrokerCase,
  BrokerHarness,
  CaseHarness,
  ConformanceCase,
  DeadLetter,
  GuardCase,
  GuardHarness,
  LedgerCase,
  LedgerHarness,
  PairCapabilities,
  PairCase,
  PairDrivers,
  PairHarness,
} from './conformance-case.ts';
export { runCases, type RunOptions } from './run-cases.ts';

/** Every promise of a broker driver. */
export const brokerCases: readonly BrokerCase[] = [...deliveryCases, ...leaseCases, ...settleCases];

/** Every promise of a ledger driver. */
export const ledgerCases: readonly LedgerCase[] = [...writeCases, ...ledgerLeaseCases, ...listCases];

/** Every promise of a guard store. */
export const guardCases: readonly GuardCase[] = [...verdictCases, ...holdCases, ...repeatCases, ...lookCases];

/** Every promise of a broker driver and a ledger driver together, as users of `createLeaseBroker` see it. */
export const pairCases: readonly PairCase[] = [
  ...pairLeaseCases,
  ...pairAnswerCases,
  ...pairDeliveryCases,
  ...pairRecordCases,
];
