import type { Clock } from '../clock.ts';
import type { BrokerDriver, GuardStore, LedgerDriver } from '../driver.ts';
import { withFaults, type FaultPlan } from './fault-plan.ts';

export {
  faultPlan,
  InjectedError,
  withFaults,
  type ArgsOf,
  type Ended,
  type Fault,
  type FaultCall,
  type FaultPlan,
  type FaultWhen,
  type LoggedCall,
  type MethodOf,
  type PlannedFault,
} from './fault-plan.ts';
export {
  applyLater,
  delayAnswer,
  delayCall,
  dropAnswer,
  duplicateDelivery,
  failBefore,
  failEntries,
  hang,
  hangDeaf,
  pretend,
  unconfirmedEntries,
} from './faults.ts';
export { steadyTime, type RemoteServer, type SteadyTime } from './steady-time.ts';

/** A broker that behaves as `inner` but for the faults planned; without any it only logs. Delays pass on `clock`. */
export function faultyBroker(inner: BrokerDriver, faults: FaultPlan<BrokerDriver>, clock: Clock): BrokerDriver {
  return withFaults(
    inner,
    ['open', 'send', 'receive', 'extend', 'complete', 'release', 'reject', 'close'],
    faults,
    clock,
  );
}

/** A ledger that behaves as `inner` but for the faults planned; without any it only logs. Delays pass on `clock`. */
export function faultyLedger(inner: LedgerDriver, faults: FaultPlan<LedgerDriver>, clock: Clock): LedgerDriver {
  return withFaults(inner, ['open', 'put', 'get', 'list', 'close'], faults, clock);
}

/** A guard store that behaves as `inner` but for the faults planned; without any it only logs. Delays pass on `clock`. */
export function faultyGuard(inner: GuardStore, faults: FaultPlan<GuardStore>, clock: Clock): GuardStore {
  return withFaults(inner, ['begin', 'extend', 'finish', 'look', 'resolve', 'close'], faults, clock);
}
