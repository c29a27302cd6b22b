import { failed, runMatrix } from './matrix.ts';
import { matrixText } from './matrix-report.ts';
import { runWithServers } from './aws-stores.ts';
import { ADAPTERS } from './stores.ts';
import { commandOptions } from '../command-options.ts';

const USAGE = `Every driver call of a task's life x every fault, as docs/faults.md describes it.

npm run matrix                                 every driver of the table (${Object.keys(ADAPTERS).join(', ')})
npm run matrix -- --driver memory              one of them
npm run matrix -- --driver memory --cell one-effect/ledger.put/2/killed-after
npm run matrix -- --json                       a line of JSON for each driver
`;

const values = commandOptions(USAGE, {
  driver: { type: 'string' },
  cell: { type: 'string' },
  json: { type: 'boolean', default: false },
});

void runWithServers(main);

async function main(): Promise<number> {
  const drivers = values.driver === undefined ? Object.keys(ADAPTERS) : [values.driver];
  if (!drivers.every((driver) => Object.hasOwn(ADAPTERS, driver))) {
    process.stdout.write(USAGE);
    return 2;
  }
  let bad = 0;
  for (const driver of drivers) {
    const matrix = await runMatrix({
      driver,
      pick: ({ id }) => values.cell === undefined || id === values.cell,
      onCell: (done, of) => progress(`${driver}: ${done} of ${of} cells`),
    });
    progress('');
    bad += failed(matrix).length + matrix.holes.length;
    const { size, calls, results, holes } = matrix;
    process.stdout.write(
      values.json ? `${JSON.stringify({ driver, size, calls, results, holes })}\n` : `${matrixText(matrix)}\n\n`,
    );
  }
  return bad === 0 ? 0 : 1;
}

function progress(text: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001B[K${text}`);
}
