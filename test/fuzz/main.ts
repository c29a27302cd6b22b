import { seeded } from './mutate.ts';
import { fuzzOnce, TARGETS } from './targets.ts';
import { commandOptions } from '../command-options.ts';

const USAGE = `Bad input of every kind: bodies, envelopes, headers, push requests, options and stored records.

npm run fuzz                               100000 inputs
npm run fuzz -- --inputs 1000 --seed 7     another number, and others
npm run fuzz -- --only NAME                one target, of ${Object.keys(TARGETS).join(', ')}; --json the verdict as JSON
`;

const values = commandOptions(USAGE, {
  inputs: { type: 'string', default: '100000' },
  seed: { type: 'string', default: '1' },
  only: { type: 'string' },
  json: { type: 'boolean', default: false },
});
const inputs = Number(values.inputs);
const first = Number(values.seed);
if (!Number.isSafeInteger(inputs) || inputs < 1 || !Number.isSafeInteger(first)) {
  process.stderr.write('--inputs and --seed take whole numbers, such as --inputs 100000 --seed 1.\n');
  process.exit(2);
}
const rows: { target: string; inputs: number; failures: number }[] = [];
for (const [name, { run, share }] of Object.entries(TARGETS)) {
  if (values.only !== undefined && values.only !== name) continue;
  const count = values.only === name ? inputs : Math.max(1, Math.round(inputs * share));
  let failures = 0;
  for (let index = 0; index < count; index++) {
    try {
      await fuzzOnce(run, seeded(first + index));
    } catch (error) {
      failures++;
      process.stderr.write(
        `${name}, seed ${first + index}: ${error instanceof Error ? error.message : String(error)}\n  again: npm run fuzz -- --only ${name} --seed ${first + index} --inputs 1\n`,
      );
      if (failures >= 5) break;
    }
    if (process.stderr.isTTY && index % 500 === 0) process.stderr.write(`\r${name} ${index} of ${count}`);
  }
  if (process.stderr.isTTY) process.stderr.write('\r\u001b[K');
  rows.push({ target: name, inputs: count, failures });
}
if (values.json)
  process.stdout.write(
    `${JSON.stringify({ inputs: rows.reduce((sum, row) => sum + row.inputs, 0), failures: rows.reduce((sum, row) => sum + row.failures, 0), targets: rows })}\n`,
  );
else
  for (const row of rows)
    process.stdout.write(
      `${row.target.padEnd(10)}${String(row.inputs).padStart(8)} inputs${String(row.failures).padStart(6)} failures\n`,
    );
if (rows.some(({ failures }) => failures > 0)) process.exitCode = 1;
