import { isLeaseholdError } from '@leasehold/core';
import { runDemo, type DemoOptions, type DemoReport, type ProfileName } from '@leasehold/example-helpdesk';
import { createDemoScreen } from './demo-screen.ts';
import { CliFailure, EXIT } from './failure.ts';
import { boxedTable } from './plain-table.ts';
import { plain } from './wording.ts';

const DEFAULT_FOLDER = '.leasehold';
/** One thing that goes wrong early leaves many promises open; the first ones say why. */
const MOST_SHOWN = 12;

interface DemoCommandOptions {
  readonly profile?: ProfileName;
  readonly endpoint?: string;
  readonly sqsEndpoint?: string;
  readonly dynamodbEndpoint?: string;
  readonly region?: string;
  readonly json?: boolean;
  readonly keep?: string | true;
}

/** `leasehold demo` */
export async function demoCommand(options: DemoCommandOptions): Promise<number> {
  const stopping = new AbortController();
  let stoppedBy: 'SIGINT' | 'SIGTERM' | undefined;
  // Stays in place while things are cleaned up: a second Ctrl-C must not leave processes behind.
  const stop = (signal: 'SIGINT' | 'SIGTERM'): void => {
    stoppedBy ??= signal;
    stopping.abort(new Error('interrupted'));
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, stop);
  const keep = options.keep === true ? DEFAULT_FOLDER : options.keep;
  const screen = options.json ? undefined : createDemoScreen(process.stdout);
  let report: DemoReport;
  try {
    report = await runDemo({
      signal: stopping.signal,
      ...profileOf(options),
      ...(keep !== undefined && { keep }),
      onLeftBehind: (what) => process.stderr.write(`left behind: ${plain(what)}\n`),
      ...(screen && { onProgress: screen.progress, onNote: screen.note }),
    });
  } catch (error) {
    if (stoppedBy === undefined) throw keepTrouble(error);
    screen?.done();
    const left = keep === undefined ? 'nothing is left of it' : `only the database in ${keep} is left of it`;
    process.stderr.write(`interrupted: the demo was stopped before its end; ${left}\n`);
    return EXIT[stoppedBy];
  } finally {
    screen?.done();
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, stop);
  }
  const { tally, ms, violations, file } = report;
  if (options.json) process.stdout.write(`${JSON.stringify({ ...tally, ms })}\n`);
  else process.stdout.write(`\n${summaryOf(report)}\n`);
  for (const { of, what } of violations.slice(0, MOST_SHOWN))
    process.stderr.write(`violation of ${of}: ${plain(what)}\n`);
  if (violations.length > MOST_SHOWN) process.stderr.write(`and ${violations.length - MOST_SHOWN} more\n`);
  if (file !== undefined) {
    const hint = `the database is ${file}; look at it with: leasehold list --db ${file} (in a clone: npm run leasehold -- list --db ${file})\n`;
    (options.json ? process.stderr : process.stdout).write(hint);
  }
  return violations.length === 0 ? EXIT.ok : EXIT.failed;
}

/** What is wrong with the folder is said of the option. */
function keepTrouble(error: unknown): unknown {
  const isKeep = isLeaseholdError(error) && error.code === 'bad-option' && error.field === 'keep';
  return isKeep ? new CliFailure(2, `--${error.message}`, { cause: error }) : error;
}

function profileOf(options: DemoCommandOptions): Pick<DemoOptions, 'profile' | 'endpoints' | 'region'> {
  const { profile, region, endpoint, sqsEndpoint: sqs = endpoint, dynamodbEndpoint: dynamodb = endpoint } = options;
  if ((sqs === undefined) !== (dynamodb === undefined)) {
    const missing = sqs === undefined ? '--sqs-endpoint' : '--dynamodb-endpoint';
    throw new CliFailure(2, `${missing} is missing: give both, or --endpoint for a server that is both.`);
  }
  return {
    ...(profile !== undefined && { profile }),
    ...(sqs !== undefined && dynamodb !== undefined && { endpoints: { sqs, dynamodb } }),
    ...(region !== undefined && { region }),
  };
}

function summaryOf({ records, tally, ms, violations }: DemoReport): string {
  const types = [...new Set(records.map(({ taskType }) => taskType))].toSorted();
  const byType = types.map((type) => {
    const own = records.filter(({ taskType }) => taskType === type);
    const count = (state: string): string => String(own.filter((record) => record.state === state).length);
    const effects = own.reduce(
      (sum, record) => sum + Object.values(record.effects).filter(({ status }) => status === 'verified').length,
      0,
    );
    const grants = own.reduce((sum, { attempt }) => sum + attempt, 0);
    return [
      plain(type),
      String(own.length),
      count('settled'),
      count('cancelled'),
      count('dead_lettered'),
      String(grants),
      String(effects),
    ];
  });
  const sums: readonly (readonly [string, string])[] = [
    ['tool calls, follow-ups, unreadable messages', `${tally.tasks} + ${tally.followUps} + ${tally.poison}`],
    ['settled, cancelled, dead-lettered', `${tally.settled} + ${tally.cancelled} + ${tally.deadLettered}`],
    ['effects at the service, of them double', `${tally.effects}, ${tally.duplicateEffects}`],
    ['lost', String(tally.lost)],
    ['taken over after a lapse', String(tally.takeovers)],
    ['stale calls refused by the service', String(tally.staleRejected)],
    ['effects read back instead of made again', String(tally.readBacks)],
    ['deliveries answered from the receipt', String(tally.replays)],
    ['seconds', (ms / 1_000).toFixed(1)],
    ['promises not kept', violations.length === 0 ? 'none' : String(violations.length)],
  ];
  const perType = boxedTable(['type', 'tasks', 'settled', 'cancelled', 'dead-lettered', 'grants', 'effects'], byType);
  return `${perType}\n${boxedTable(['in all', ''], sums)}`;
}
