import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { audit } from './audit.ts';
import { findFakeTime, forgetOldFakeTime } from './fake-time.ts';
import { FAULT_KINDS } from './fault-plan.ts';
import { checkFleet } from './fleet.ts';
import { PLANTS, type Plant } from './plants.ts';
import { PROFILES } from './profiles.ts';
import { progressText, repeatText, tallyText, violationsText } from './report.ts';
import type { Progress, RunOptions } from './run-options.ts';
import { playRun } from './run.ts';

const USAGE = `Chaos on real processes, as docs/chaos.md describes it.

npm run chaos                                    profile local, 150 tasks, half a minute
npm run chaos -- --profile local                 of ${Object.keys(PROFILES).join(', ')}
npm run chaos -- --tasks 2000 --minutes 5        how many tasks, and for how long faults befall them
npm run chaos -- --seed 7                        another plan of tasks and faults
npm run chaos -- --workers 5                     how many workers, from 2 to 32
npm run chaos -- --faults kill,stop              some kinds of faults, of ${FAULT_KINDS.join(', ')}
npm run chaos -- --plant no-guard                a weakness that the audit has to find, of ${Object.keys(PLANTS).join(', ')}
npm run chaos -- --directory /dev/shm            where the run keeps its files; --keep leaves them there
npm run chaos -- --json                          one line of JSON
`;
const LINE_EVERY_MS = 5_000;

class BadOption extends Error {}

void main().then((code) => (process.exitCode = code));

async function main(): Promise<number> {
  let parsed: ReturnType<typeof readOptions>;
  try {
    parsed = readOptions();
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`);
    return 2;
  }
  if (parsed === 'help') {
    process.stdout.write(USAGE);
    return 0;
  }
  const { json, keep, faultText } = parsed;
  let fakeTime: string | undefined;
  try {
    checkFleet();
    forgetOldFakeTime();
    if (parsed.faults.includes('clock')) fakeTime = findFakeTime((text) => process.stderr.write(`${text}\n`));
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    return 2;
  }
  const stopping = new AbortController();
  process.once('SIGINT', () => stopping.abort());
  process.once('SIGTERM', () => stopping.abort());
  const directory = mkdtempSync(join(parsed.directory, 'leasehold-chaos-'));
  let isKept = keep;
  try {
    const options: RunOptions = { ...parsed, directory, ...(fakeTime !== undefined && { fakeTime }) };
    const startedAt = performance.now();
    const { evidence, troubles } = await playRun(options, stopping.signal, progressTeller());
    clearProgress();
    const ms = performance.now() - startedAt;
    const { tally, violations: found } = audit(evidence);
    const violations = [...troubles, ...found];
    const repeat = repeatText(options, faultText);
    const expected: readonly string[] = options.plant ? PLANTS[options.plant] : [];
    const isFound = violations.some(({ of }) => expected.includes(of));
    if (json) {
      const {
        tasks,
        settled,
        cancelled,
        deadLettered,
        lost,
        duplicateEffects,
        effects,
        staleRefused,
        faults,
        recovery,
      } = tally;
      const line = {
        profile: options.profile,
        tasks,
        settled,
        cancelled,
        deadLettered,
        lost,
        duplicateEffects,
        effects,
        staleRefused,
        faults,
        recovery,
        violations: violations.length,
        seed: options.seed,
        ms: Math.round(ms),
      };
      process.stdout.write(`${JSON.stringify(line)}\n`);
    } else process.stdout.write(`${tallyText(tally, evidence, ms)}\n`);
    if (violations.length > 0) {
      isKept ||= options.plant === undefined;
      process.stderr.write(`\n${violationsText(violations, evidence, evidence.entries[0]?.at ?? 0)}\n`);
    }
    if (options.plant) process.stderr.write(`\nplanted ${options.plant}: ${isFound ? 'found' : 'NOT FOUND'}\n`);
    else if (!json || violations.length > 0)
      process.stderr.write(`\n${violations.length === 0 ? 'every invariant held' : 'again'}: ${repeat}\n`);
    return (options.plant ? isFound : violations.length === 0) ? 0 : 1;
  } catch (error) {
    clearProgress();
    if (stopping.signal.aborted) return 130;
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    isKept = true;
    return 1;
  } finally {
    if (isKept) process.stderr.write(`journals and data: ${directory}\n`);
    else rmSync(directory, { recursive: true, force: true });
  }
}

function readOptions():
  | 'help'
  | (Omit<RunOptions, 'fakeTime'> & {
      readonly json: boolean;
      readonly keep: boolean;
      readonly faultText: string | undefined;
    }) {
  const { values } = parseArgs({
    options: {
      profile: { type: 'string', default: 'local' },
      tasks: { type: 'string', default: '150' },
      minutes: { type: 'string', default: '0.5' },
      seed: { type: 'string', default: '1' },
      workers: { type: 'string', default: '5' },
      faults: { type: 'string' },
      plant: { type: 'string' },
      directory: { type: 'string', default: tmpdir() },
      keep: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return 'help';
  const whole = (name: 'tasks' | 'seed' | 'workers', least: number, most: number): number => {
    const value = Number(values[name]);
    if (!Number.isSafeInteger(value) || value < least || value > most)
      throw new BadOption(
        `--${name} takes a whole number from ${least} to ${most}, such as --${name} ${Math.max(least, 5)}.`,
      );
    return value;
  };
  const oneOf = <Name extends string>(name: string, value: string, names: readonly Name[]): Name => {
    const found = names.find((one) => one === value);
    if (found === undefined) throw new BadOption(`--${name} ${value} is not known; there are ${names.join(', ')}.`);
    return found;
  };
  const minutes = Number(values.minutes);
  if (!(minutes >= 0.1 && minutes <= 600))
    throw new BadOption('--minutes takes a number from 0.1 to 600, such as --minutes 5.');
  return {
    profile: oneOf('profile', values.profile, Object.keys(PROFILES)),
    tasks: whole('tasks', 12, 1_000_000),
    minutes,
    seed: whole('seed', 0, 0xffff_ffff),
    workers: whole('workers', 2, 32),
    faults:
      values.faults === undefined
        ? FAULT_KINDS
        : values.faults.split(',').map((kind) => oneOf('faults', kind, FAULT_KINDS)),
    directory: values.directory,
    json: values.json,
    keep: values.keep,
    faultText: values.faults,
    ...(values.plant !== undefined && { plant: oneOf('plant', values.plant, Object.keys(PLANTS) as Plant[]) }),
  };
}

function progressTeller(): (progress: Progress) => void {
  let toldAt = 0;
  return (progress) => {
    const text = progressText(progress);
    if (process.stderr.isTTY) process.stderr.write(`\r\u001B[K${text}`);
    else if (performance.now() - toldAt >= LINE_EVERY_MS) {
      toldAt = performance.now();
      process.stderr.write(`${text}\n`);
    }
  };
}

function clearProgress(): void {
  if (process.stderr.isTTY) process.stderr.write('\r\u001B[K');
}
