import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { PLANTED } from './planted.ts';
import { occurrences } from './plant-hook.ts';

const MAIN = fileURLToPath(new URL('./main.ts', import.meta.url));
const FLAGS = ['--disable-warning=ExperimentalWarning', '--conditions=@leasehold/source'];

interface Found {
  readonly name: string;
  readonly seed?: number;
  readonly failure?: string;
}

/** In a process of its own: the load hook is not to touch what other tests load. */
async function find(which: readonly number[]): Promise<readonly Found[]> {
  const args = [...FLAGS, MAIN, '--planted', '--json', '--bound', '300', '--which', which.join(',')];
  const { stdout } = await promisify(execFile)(process.execPath, args).catch((error: unknown) => ({
    // It ends with 1 when it misses one.
    stdout: (error as { stdout?: string }).stdout ?? '',
  }));
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Found);
}

test('what a planted fault rewrites occurs exactly once', () => {
  expect(PLANTED.length).toBeGreaterThanOrEqual(25);
  for (const fault of PLANTED)
    expect({ fault: fault.name, occurs: occurrences(fault) }).toEqual({ fault: fault.name, occurs: 1 });
});

test('every planted fault is found', { timeout: 300_000 }, async () => {
  const all = [...PLANTED.keys()];
  const halves = await Promise.all([
    find(all.filter((number) => number % 2 === 0)),
    find(all.filter((number) => number % 2 === 1)),
  ]);
  const missed = PLANTED.filter(
    ({ name }) => !halves.flat().some((found) => found.name === name && found.failure !== undefined),
  );
  expect(missed.map(({ name }) => name)).toEqual([]);
});

test('the page lists every planted fault, with the seed that finds it', () => {
  const page = readFileSync(new URL('../../docs/simulation.md', import.meta.url), 'utf8');
  const rows = page.split('\n').filter((line) => /^\| .* \| `[\w-]+\.ts` +\| /.test(line));
  const listed = rows.map((row) => row.split('|').map((cell) => cell.trim()));
  expect(listed.map((cells) => [cells[1], cells[2], Number(cells[4])])).toEqual(
    PLANTED.map(({ name, file, seed }) => [name, `\`${file.slice(file.lastIndexOf('/') + 1)}\``, seed]),
  );
});
