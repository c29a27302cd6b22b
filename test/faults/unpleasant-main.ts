import { runWithServers } from './aws-stores.ts';
import { ADAPTERS } from './stores.ts';
import { textTable } from './text-table.ts';
import { seconds, unpleasant, type Unpleasant } from './unpleasant.ts';
import { commandOptions } from '../command-options.ts';

const USAGE = `A worker that is cut off while its request is on its way, as docs/faults.md describes it.

npm run unpleasant                             memory+memory
npm run unpleasant -- --pair sqlite+memory     broker + ledger, of ${Object.keys(ADAPTERS).join(', ')}
npm run unpleasant -- --json                   story and checks as JSON
`;

const values = commandOptions(USAGE, {
  pair: { type: 'string', default: 'memory+memory' },
  json: { type: 'boolean', default: false },
});

void runWithServers(main);

async function main(): Promise<number> {
  const names = values.pair.split('+');
  const [broker = '', ledger = ''] = names;
  if (names.length !== 2 || !names.every((name) => Object.hasOwn(ADAPTERS, name))) {
    process.stdout.write(USAGE);
    return 2;
  }
  const outcome = await unpleasant({ broker, ledger });
  process.stdout.write(values.json ? `${JSON.stringify(outcome)}\n` : text(outcome));
  return outcome.checks.every(({ holds }) => holds) ? 0 : 1;
}

function text({ broker, ledger, story, checks }: Unpleasant): string {
  const lines = story.map(({ at, who, what, detail }) => [seconds(at), who, what, detail]);
  const verdicts = checks.map(({ claim, seen, holds }) => [holds ? 'ok' : 'FAILED', claim, seen]);
  return `${broker} broker, ${ledger} ledger\n\n${textTable(lines)}\n\n${textTable(verdicts)}\n`;
}
