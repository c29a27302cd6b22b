import type { OutsideCall, RunTaskOptions, TaskRun } from '@leasehold/worker/testing';

/** What is made to go wrong in one run. */
export interface Fault {
  readonly kind: 'killed after' | 'answer lost' | 'paused before' | 'paused after';
  /** The how-manieth call of the first worker. */
  readonly at: number;
  readonly step: string;
}

const KINDS: readonly Fault['kind'][] = ['killed after', 'answer lost', 'paused before', 'paused after'];

/** Everything that can go wrong at each call of a run without faults: the first worker's calls up to the one that ends the task. */
export function faultsOf(run: Pick<TaskRun, 'calls'>): readonly Fault[] {
  const calls = run.calls.filter(({ worker, ended }) => worker === 'first' && ended !== 'never');
  const end = calls.findLastIndex(({ what }) => what === 'broker: complete');
  return calls
    .slice(0, end + 1)
    .filter((call, index) => !isIdlePoll(call, calls.slice(0, index)))
    .flatMap(({ index, what }) => KINDS.map((kind) => ({ kind, at: index, step: what })));
}

/** A fault as the options of a run. */
export function optionsOf({ kind, at }: Fault): Pick<RunTaskOptions, 'crashAfter' | 'loseAnswerOf' | 'pauseFor'> {
  switch (kind) {
    case 'killed after':
      return { crashAfter: at };
    case 'answer lost':
      return { loseAnswerOf: at };
    case 'paused before':
      return { pauseFor: { before: at } };
    case 'paused after':
      return { pauseFor: { after: at } };
  }
}

/** A fault in words. */
export function tell({ kind, at, step }: Fault): string {
  return kind === 'answer lost' ? `the answer to step ${at} was lost (${step})` : `${kind} step ${at} (${step})`;
}

/** A poll for the next task, when this one is settled already. */
function isIdlePoll(call: OutsideCall, before: readonly OutsideCall[]): boolean {
  return call.what === 'broker: receive' && before.some(({ step }) => step === 'settle');
}
