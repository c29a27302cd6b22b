import { format } from 'node:util';
import { isLeaseholdError } from '@leasehold/core';
import type { TaskDefinition } from '@leasehold/worker';
import {
  runTask,
  type AnsweredRequest,
  type DeclaredEffect,
  type OutsideCall,
  type RunOutcome,
  type TaskRun,
} from '@leasehold/worker/testing';
import { CliFailure } from '../failure.ts';
import { faultsOf, optionsOf, type Fault } from './fault.ts';
import type { OutsideWorld } from './outside-world.ts';

/** What one run of the task came to. */
export interface Observed {
  /** Nothing for the run without faults. */
  readonly fault?: Fault;
  /** `stopped`: the run itself could not go on. */
  readonly outcome: RunOutcome | 'stopped';
  /** Why it did not settle, as far as it is known. */
  readonly why?: string;
  readonly requests: readonly AnsweredRequest[];
  readonly rejected: readonly { readonly worker: string; readonly token: number }[];
  /** Rules of Leasehold that did not hold, a second settle among them. */
  readonly violations: readonly string[];
}

/** What is left of the runs. */
export interface Rehearsal {
  readonly task: string;
  readonly leaseMs: number;
  readonly steps: readonly Pick<OutsideCall, 'index' | 'what'>[];
  readonly effects: readonly DeclaredEffect[];
  readonly clean: Observed;
  readonly faulty: readonly Observed[];
}

/** What a rehearsal runs with. */
export interface RehearsalParts {
  /** The task, as one more process loads it. */
  load(): Promise<TaskDefinition>;
  readonly input: unknown;
  /** The outside for one run. */
  outside(): OutsideWorld;
  /** A real receiver remembers the keys of the run before. */
  readonly freshKeys: boolean;
  /** Called before each run. */
  readonly progress: (done: number, all: number | undefined, fault: Fault | undefined) => void;
}

const REAL_WAIT_MS = 10_000;

/**
 * Runs a task once to find its steps, then once for everything that can go wrong at each of them, always with a second worker that takes
 * over and the first one coming back if it can.
 *
 * @throws CliFailure when the run without faults does not settle: then there is nothing to compare with.
 */
export async function rehearse(parts: RehearsalParts): Promise<Rehearsal> {
  const key = parts.freshKeys ? `rehearsal-${Date.now().toString(36)}` : 'rehearsal';
  const runWith = async (
    fault: Fault | undefined,
    number: number,
  ): Promise<{ run: TaskRun; outside: OutsideWorld }> => {
    const outside = parts.outside();
    const [task, successor] = [await parts.load(), await parts.load()];
    const run = await runTask(task, parts.input, {
      successor,
      fetch: outside.fetch,
      idempotencyKey: parts.freshKeys ? `${key}-${number}` : key,
      answer: (question) => answerTo(question, outside),
      realWaitMs: REAL_WAIT_MS,
      ...(fault && optionsOf(fault)),
    });
    return { run, outside: parts.freshKeys ? withoutRunKey(outside, `${key}-${number}`) : outside };
  };

  parts.progress(0, undefined, undefined);
  const first = await firstRun(() => runWith(undefined, 0));
  const { leaseMs } = (await parts.load()).timing;
  const faults = faultsOf(first.run);
  const faulty: Observed[] = [];
  for (const [index, fault] of faults.entries()) {
    parts.progress(index, faults.length, fault);
    try {
      const { run, outside } = await runWith(fault, index + 1);
      faulty.push({ fault, ...observed(run, outside) });
    } catch (error) {
      if (!isLeaseholdError(error)) throw error;
      faulty.push({ fault, outcome: 'stopped', why: error.message, requests: [], rejected: [], violations: [] });
    }
  }
  const steps = first.run.calls.filter(
    ({ index, worker }) => worker === 'first' && faults.some(({ at }) => at === index),
  );
  return {
    task: first.run.record?.taskType ?? '',
    leaseMs,
    steps,
    effects: first.run.effects,
    clean: observed(first.run, first.outside),
    faulty,
  };
}

/** The key of one run is no part of what a call is. */
function withoutRunKey(outside: OutsideWorld, key: string): OutsideWorld {
  return {
    ...outside,
    get requests() {
      return outside.requests.map((request) => ({ ...request, url: request.url.replaceAll(key, 'rehearsal') }));
    },
  };
}

/** The task does not settle even when nothing goes wrong; `lines` say what was seen. */
export class NothingToRehearse extends CliFailure {
  readonly lines: readonly string[];

  constructor(message: string, lines: readonly string[]) {
    super(2, message);
    this.lines = lines;
  }
}

async function firstRun<Found extends { readonly run: TaskRun; readonly outside: OutsideWorld }>(
  run: () => Promise<Found>,
): Promise<Found> {
  let found: Found;
  try {
    found = await run();
  } catch (error) {
    if (!isLeaseholdError(error)) throw error;
    // What runTask says about waiting ends with options that this command does not have.
    const [what] = error.field === 'realWaitMs' ? error.message.split('. Pass') : [error.message];
    throw new CliFailure(2, `the task could not be run: ${what}.`.replace('..', '.'), { cause: error });
  }
  if (found.run.outcome === 'settled') return found;
  const { requests } = found.outside;
  const answers = requests.map(
    ({ method, url, status, detail }) =>
      `${method} ${url} was answered ${status}${detail === undefined ? '' : `: ${detail}`}`,
  );
  const keyless = requests.find(({ outcome, key, scene }) => outcome === 'made' && key === undefined && scene?.effect);
  const hint = keyless
    ? [`The commit of ${keyless.scene?.name} does not pass on its idempotencyKey, so nothing can be found by it.`]
    : [];
  const why = becauseOf(found.run);
  throw new NothingToRehearse(
    `the task does not settle even when nothing goes wrong: it is ${found.run.outcome}${why === '' ? '.' : `: ${why}`} ` +
      'Mend the handler, or give the input it needs with --input and the answers it needs with --doubles; --live lets its calls really go out.',
    [...new Set(answers), ...hint],
  );
}

function observed(run: TaskRun, outside: OutsideWorld): Omit<Observed, 'fault'> {
  const why = run.outcome === 'settled' ? '' : becauseOf(run);
  const twice = run.settles > 1 ? [`the task was settled ${run.settles} times`] : [];
  return {
    outcome: run.outcome,
    requests: outside.requests,
    rejected: run.rejected.map(({ worker, token }) => ({ worker, token })),
    violations: [...run.violations, ...twice],
    ...(why !== '' && { why }),
  };
}

/** A sentence: what the handler threw last, or else what the record says. */
function becauseOf({ record, thrown }: TaskRun): string {
  const last = thrown.at(-1)?.error;
  const ours = isLeaseholdError(last) && ['ask-human', 'ownership', 'closing', 'aborted'].includes(last.code);
  const said =
    last === undefined || ours ? record?.lastError?.message : last instanceof Error ? last.message : format('%s', last);
  return said === undefined || said === '' ? '' : said.replace(/\.?$/, '.');
}

/** Says yes to everything; of an effect that only a person can tell, the truth. */
function answerTo(question: string, outside: OutsideWorld): { readonly approve: boolean; readonly reason: string } {
  const about = /^Does effect .* \(key (.+)\)\?/.exec(question)?.[1];
  if (about === undefined) return { approve: true, reason: 'rehearsed' };
  const made = outside.requests.some(
    ({ outcome, key, scene }) => outcome === 'made' && (key ?? scene?.effect?.key) === about,
  );
  return { approve: made, reason: made ? 'it is there' : 'it is not there' };
}
