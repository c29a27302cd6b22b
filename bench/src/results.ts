import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { createRequire } from 'node:module';
import { chart } from './chart.ts';
import type { Figure } from './figures.ts';

const FOLDER = new URL('../results/', import.meta.url);
const PEERS = [
  '@aws-sdk/client-sqs',
  '@aws-sdk/client-dynamodb',
  'sqs-consumer',
  '@aws-lambda-powertools/idempotency',
] as const;

/** One run of a row, with where and when. */
export interface Result {
  readonly row: string;
  readonly measuredAt: string;
  readonly rounds: number;
  readonly machine: { readonly cpu: string; readonly cores: number; readonly memoryGb: number; readonly node: string };
  readonly versions: Readonly<Record<string, string>>;
  readonly figures: readonly Figure[];
}

/** Keeps the results of these rows beside those of other rows from earlier runs, and draws the charts of these. */
export function keepResults(results: readonly Result[]): void {
  mkdirSync(FOLDER, { recursive: true });
  const file = new URL('results.json', FOLDER);
  const earlier = readEarlier(file).filter(({ row }) => !results.some((result) => result.row === row));
  const all = [...earlier, ...results].sort((a, b) => a.row.localeCompare(b.row, 'en'));
  writeFileSync(file, `${JSON.stringify(all, undefined, 2)}\n`);
  for (const { row, figures, measuredAt, machine } of results) {
    const title = `${row}: ${measuredAt.slice(0, 10)}, ${machine.cores} cores, Node ${machine.node}`;
    writeFileSync(new URL(`${row}.svg`, FOLDER), chart(title, figures));
  }
}

export function resultOf(row: string, rounds: number, figures: readonly Figure[]): Result {
  return {
    row,
    measuredAt: new Date().toISOString(),
    rounds,
    machine: {
      cpu: cpus()[0]?.model ?? 'unknown',
      cores: cpus().length,
      memoryGb: Math.round(totalmem() / 2 ** 30),
      node: process.versions.node,
    },
    versions: Object.fromEntries(PEERS.map((name) => [name, versionOf(name)])),
    figures,
  };
}

function readEarlier(file: URL): readonly Result[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
  return JSON.parse(text) as readonly Result[];
}

function versionOf(name: string): string {
  // Not every package lets its package.json be imported.
  for (const folder of createRequire(import.meta.url).resolve.paths(name) ?? []) {
    try {
      return String(
        (JSON.parse(readFileSync(`${folder}/${name}/package.json`, 'utf8')) as { version: unknown }).version,
      );
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  return 'not installed';
}
