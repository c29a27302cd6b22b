import type { Caught, FaultName, FaultPlan, LetGo } from './child-messages.ts';

/** A call that meets a fault. */
export interface MeetingCall {
  readonly taskId: string | null;
  readonly pid: number;
  /** The caller has hung up, or was killed. */
  readonly gone: () => boolean;
}

/** The service's part in the faults: it holds calls back at exactly the moment that a fault needs. */
export interface FaultBoard {
  /** Holds the call if it is the one for this fault, and resolves when it may go on. True for the call that was caught. */
  meet(fault: FaultName, call: MeetingCall): Promise<boolean>;
  /** The fault was done: what is held back goes on, and nothing is held back for it any more. */
  letGo(message: LetGo): void;
}

interface Gate {
  readonly open: Promise<void>;
  readonly letGo: () => void;
  isOpen: boolean;
  caught: boolean;
}

/** Makes a board. `tell` is called once per fault, when its call has arrived and is held. */
export function createFaultBoard(plan: FaultPlan, tell: (caught: Caught) => void): FaultBoard {
  const gates: Readonly<Record<FaultName, Gate>> = { kill: gate(), stop: gate(), drop: gate(), cancel: gate() };
  let killed: number | undefined;
  return {
    async meet(fault, call) {
      const { [fault]: taskId } = plan;
      if (taskId !== call.taskId || gates[fault].isOpen) return false;
      // One process at a time is in trouble: the one to be stopped must not be the one to be killed.
      if (fault === 'stop') await gates.kill.open;
      const { [fault]: own } = gates;
      if (call.gone() || call.pid === killed || own.isOpen) return false;
      if (own.caught) {
        // A second attempt while the first is held back: a cancellation holds both, or the task might end before it is cancelled.
        if (fault === 'cancel') await own.open;
        return false;
      }
      own.caught = true;
      tell({ kind: 'caught', fault, taskId, pid: call.pid });
      await own.open;
      return true;
    },
    letGo({ fault, killed: pid }) {
      killed ??= pid;
      gates[fault].isOpen = true;
      gates[fault].letGo();
    },
  };
}

function gate(): Gate {
  let letGo: () => void = () => undefined;
  const open = new Promise<void>((resolve) => (letGo = resolve));
  return { open, letGo, isOpen: false, caught: false };
}
