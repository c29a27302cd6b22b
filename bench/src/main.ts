import { parseArgs } from 'node:util';
import type { Figure } from './figures.ts';
import { keepResults, resultOf, type Result } from './results.ts';
import { ROWS } from './rows/index.ts';
import { startServers, type ServerProcess } from './servers.ts';
import { jsonLine } from './json-line.ts';
import { table } from './table.ts';

const USAGE = `npm run bench -- [--only <row,row>] [--rounds <number>] [--json] [--strict]
rows: ${ROWS.map(({ id }) => id).join(', ')}
`;

function options() {
  return parseArgs({
    options: {
      only: { type: 'string' },
      rounds: { type: 'string', default: '5' },
      json: { type: 'boolean', default: false },
      strict: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  }).values;
}

async function main(): Promise<void> {
  let values: ReturnType<typeof options>;
  try {
    values = options();
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`);
    process.exitCode = 2;
    return;
  }
  const rounds = Number(values.rounds);
  const wanted = values.only?.split(',').map((id) => id.trim());
  const unknown = wanted?.filter((id) => !ROWS.some((row) => row.id === id)) ?? [];
  if (values.help || unknown.length > 0 || !Number.isInteger(rounds) || rounds < 1) {
    if (unknown.length > 0) process.stderr.write(`There is no row ${unknown.join(', ')}.\n`);
    (values.help ? process.stdout : process.stderr).write(USAGE);
    process.exitCode = values.help ? 0 : 2;
    return;
  }
  let servers: Promise<ServerProcess> | undefined;
  const progress = (text: string): void => {
    if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${text}`);
    else process.stderr.write(`${text}\n`);
  };
  const results: Result[] = [];
  try {
    for (const row of ROWS) {
      if (wanted && !wanted.includes(row.id)) continue;
      const figures = await row.run({ rounds, progress, servers: () => (servers ??= startServers()) });
      results.push(resultOf(row.id, rounds, figures));
      // At once: what was measured is not lost to a row that fails.
      keepResults(results.slice(-1));
    }
  } finally {
    if (process.stderr.isTTY) process.stderr.write('\r\u001b[K');
    await (await servers)?.close();
  }
  const figures: readonly Figure[] = results.flatMap((result) => result.figures);
  (values.json ? process.stderr : process.stdout).write(table(figures));
  if (values.json) process.stdout.write(`${jsonLine(results)}\n`);
  if (values.strict && figures.some(({ met }) => !met)) process.exitCode = 1;
}

main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  process.exitCode = 1;
});
