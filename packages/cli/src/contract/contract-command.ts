import {
  brokerCases,
  guardCases,
  ledgerCases,
  pairCases,
  runCases,
  type CaseHarness,
  type ConformanceCase,
} from '@leasehold/contract';
import { judgeMutants } from '@leasehold/contract/mutants';
import { CliFailure, EXIT } from '../failure.ts';
import { plainTable } from '../plain-table.ts';
import { plain } from '../wording.ts';
import { loadSubject } from './load-subject.ts';

interface ContractOptions {
  readonly driver?: string;
  readonly mutants?: boolean;
  readonly json?: boolean;
}

interface CaseResult {
  readonly kind: 'broker' | 'ledger' | 'guard' | 'pair';
  readonly name: string;
  readonly passed: boolean;
  readonly message?: string;
  readonly ms: number;
}

/** A case that takes longer has failed; in real time the slowest wait for a lease of the backend to end. */
const TOO_LONG_MS = 120_000;
const AT_ONCE = 4;

/** `leasehold contract` */
export async function contractCommand(options: ContractOptions): Promise<number> {
  if ((options.driver === undefined) === !options.mutants) {
    throw new CliFailure(2, 'name a module with --driver <file>, or let the suite test itself with --mutants.');
  }
  return options.mutants ? testItself(options.json ?? false) : testDriver(options.driver ?? '', options.json ?? false);
}

async function testDriver(file: string, json: boolean): Promise<number> {
  const subject = await loadSubject(file);
  const results: CaseResult[] = [];
  const show = (result: CaseResult): void => {
    results.push(result);
    if (!json) process.stdout.write(`${result.passed ? 'ok    ' : 'FAILED'} ${result.kind}: ${plain(result.name)}\n`);
  };
  if (subject.broker) await runAll('broker', brokerCases, subject.broker, show);
  if (subject.ledger) await runAll('ledger', ledgerCases, subject.ledger, show);
  if (subject.guard) await runAll('guard', guardCases, { ...subject.guard, capabilities: undefined }, show);
  if (subject.pair) await runAll('pair', pairCases, subject.pair, show);
  const failed = results.filter((result) => !result.passed);
  if (json)
    process.stdout.write(
      `${JSON.stringify({ passed: results.length - failed.length, failed: failed.length, results })}\n`,
    );
  else {
    for (const { kind, name, message } of failed)
      process.stdout.write(`\n${kind}: ${plain(name)}\n  ${plain(message ?? '')}\n`);
    process.stdout.write(`\n${results.length - failed.length} passed, ${failed.length} failed\n`);
  }
  return failed.length > 0 ? EXIT.failed : EXIT.ok;
}

async function runAll<Harness extends CaseHarness<object>, Capabilities>(
  kind: CaseResult['kind'],
  cases: readonly ConformanceCase<Harness, Capabilities>[],
  under: { readonly capabilities: Capabilities; harness(): Harness | Promise<Harness> },
  show: (result: CaseResult) => void,
): Promise<void> {
  const waiting: { readonly name: string; readonly run: () => Promise<void> }[] = [];
  runCases(cases, () => under.harness(), {
    test: (name, run) => waiting.push({ name, run }),
    capabilities: under.capabilities,
  });
  const lane = async (): Promise<void> => {
    for (let next = waiting.shift(); next; next = waiting.shift()) show(await runOne(kind, next.name, next.run));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
}

async function runOne(kind: CaseResult['kind'], name: string, run: () => Promise<void>): Promise<CaseResult> {
  const started = performance.now();
  let timer: NodeJS.Timeout | undefined;
  const tooLong = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`the case did not end within ${TOO_LONG_MS / 1_000} s`)), TOO_LONG_MS);
  });
  const end = (): number => {
    clearTimeout(timer);
    return Math.round(performance.now() - started);
  };
  try {
    await Promise.race([run(), tooLong]);
    return { kind, name, passed: true, ms: end() };
  } catch (error) {
    return { kind, name, passed: false, message: error instanceof Error ? error.message : String(error), ms: end() };
  }
}

async function testItself(json: boolean): Promise<number> {
  const rows: string[][] = [];
  let mutants = 0;
  let caughtByNamedCase = 0;
  for await (const { kind, wrong, failed, missed } of judgeMutants()) {
    mutants++;
    if (missed.length === 0) caughtByNamedCase++;
    rows.push([
      missed.length === 0 ? 'caught' : 'MISSED',
      kind,
      plain(wrong),
      missed.length === 0 ? plain(failed[0] ?? '') : missed.join('; '),
    ]);
    if (!json && process.stderr.isTTY) process.stderr.write(`\r${mutants} broken drivers, ${caughtByNamedCase} caught`);
  }
  if (!json && process.stderr.isTTY) process.stderr.write('\r\u001b[K');
  if (json) process.stdout.write(`${JSON.stringify({ mutants, caughtByNamedCase })}\n`);
  else
    process.stdout.write(
      `${plainTable(['', 'driver', 'that', 'first failing case'], rows)}\n\n${caughtByNamedCase} of ${mutants} broken drivers are caught by the case that names their fault\n`,
    );
  return mutants === caughtByNamedCase ? EXIT.ok : EXIT.failed;
}
