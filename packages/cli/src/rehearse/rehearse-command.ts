import { createLogUpdate } from 'log-update';
import type { TaskDefinition } from '@leasehold/worker';
import { CliFailure, EXIT } from '../failure.ts';
import { plain } from '../wording.ts';
import { closeNetwork, type ClosedNetwork } from './closed-network.ts';
import { readDoubles, readJson } from './doubles-file.ts';
import { tell, type Fault } from './fault.ts';
import { judge, type Verdict } from './judge.ts';
import { openHandlers } from './load-handlers.ts';
import { doubledWorld, liveWorld } from './outside-world.ts';
import { pageOf } from './rehearsal-page.ts';
import { NothingToRehearse, rehearse, type Rehearsal } from './rehearsal.ts';

/** What `leasehold rehearse` takes. */
export interface RehearseOptions {
  readonly handlers: string;
  readonly task?: string;
  readonly input?: string;
  readonly doubles?: string;
  readonly live?: boolean;
  readonly json?: boolean;
}

/** What says why a task cannot be rehearsed is said within a screen. */
const MOST_LINES = 15;

/** `leasehold rehearse` */
export async function rehearseCommand(options: RehearseOptions): Promise<number> {
  const input = options.input === undefined ? {} : readJson(options.input, '--input');
  const rules = options.doubles === undefined ? [] : readDoubles(options.doubles);
  const send = globalThis.fetch;
  const network = options.live ? undefined : closeNetwork();
  const noise = muffle();
  const progress = createProgress();
  const startedAt = performance.now();
  let rehearsal: Rehearsal;
  try {
    const handlers = await openHandlers(options.handlers, options.task);
    try {
      await checkInput(await handlers.load(), input, options.input);
      if (options.live) process.stderr.write('--live: every call of every run really goes out\n');
      rehearsal = await rehearse({
        load: () => handlers.load(),
        input,
        outside: () => (options.live ? liveWorld(send) : doubledWorld(rules)),
        freshKeys: options.live ?? false,
        progress(done, all, fault) {
          // What a handler says the first time it says forty times more.
          if (fault) noise.silence();
          progress.show(done, all, fault);
        },
      });
    } finally {
      handlers.stop();
    }
  } catch (error) {
    progress.done();
    if (error instanceof NothingToRehearse) for (const line of error.lines.slice(0, MOST_LINES)) note(line);
    if (error instanceof CliFailure) noteRefused(network);
    throw error;
  } finally {
    progress.done();
    noise.restore();
    network?.open();
  }
  const verdict = judge(rehearsal, rules);
  const ms = performance.now() - startedAt;
  process.stdout.write(
    options.json ? `${jsonOf(rehearsal, verdict, options.live ?? false, ms)}\n` : `${pageOf(rehearsal, verdict, ms)}\n`,
  );
  for (const line of noise.notes) note(line);
  noteRefused(network);
  return verdict.verdict === 'clean' ? EXIT.ok : EXIT.failed;
}

function note(line: string): void {
  process.stderr.write(`note: ${plain(line)}\n`);
}

function noteRefused(network: ClosedNetwork | undefined): void {
  if (!network || network.refused.length === 0) return;
  note(
    `connections were refused to ${network.refused.join(', ')}: without --live a rehearsal answers fetch, and lets nothing else out`,
  );
}

async function checkInput(
  { input: schema, type }: TaskDefinition,
  input: unknown,
  file: string | undefined,
): Promise<void> {
  const checked = await schema?.['~standard'].validate(input);
  if (!checked?.issues) return;
  const found = checked.issues.slice(0, 10).map(({ path = [], message }) => {
    const field = path.map((step) => String(typeof step === 'object' ? step.key : step)).join('.');
    return `\n  ${field === '' ? 'the input' : field}: ${plain(message)}`;
  });
  const remedy = file === undefined ? 'give one with --input <file>' : `mend ${file}`;
  throw new CliFailure(2, `--input does not fit the input of ${type}; ${remedy}:${found.join('')}`);
}

/** Keeps what handlers print out of the report, and what they forget to catch from ending it. */
function muffle(): { readonly notes: readonly string[]; silence(): void; restore(): void } {
  const notes = new Set<string>();
  const write = process.stdout.write.bind(process.stdout);
  let silent = false;
  const aside: typeof process.stdout.write = (chunk: Uint8Array | string) => silent || process.stderr.write(chunk);
  process.stdout.write = aside;
  const unhandled = (reason: unknown): void => {
    const what = reason instanceof Error ? reason.message : String(reason);
    notes.add(`the handler left a rejection unhandled, which ends a worker's process: ${what}`);
  };
  process.on('unhandledRejection', unhandled);
  return {
    get notes() {
      return [...notes];
    },
    silence: () => void (silent = true),
    restore() {
      process.stdout.write = write;
      process.off('unhandledRejection', unhandled);
    },
  };
}

/** On a terminal, one line that is drawn over; elsewhere nothing. */
function createProgress(): {
  show(done: number, all: number | undefined, fault: Fault | undefined): void;
  done(): void;
} {
  if (!process.stderr.isTTY) return { show: () => undefined, done: () => undefined };
  const update = createLogUpdate(process.stderr);
  return {
    show: (done, all, fault) =>
      update(fault ? `${done + 1} of ${all}: ${plain(tell(fault))}` : 'running the task once to find its steps'),
    done() {
      update.clear();
      update.done();
    },
  };
}

function jsonOf(rehearsal: Rehearsal, verdict: Verdict, live: boolean, ms: number): string {
  const { task, leaseMs, steps, faulty } = rehearsal;
  const named = steps.map(({ index, what }) => ({ step: index, what }));
  return JSON.stringify({ task, live, leaseMs, runs: faulty.length, ms: Math.round(ms), steps: named, ...verdict });
}
