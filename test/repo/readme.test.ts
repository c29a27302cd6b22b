import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { fences, type Fence } from '../../scripts/markdown-fences.ts';
import { docFences } from './doc-fences.ts';
import { codeProblems } from './readme-code.ts';
import { commandProblem, commandsOf, type Facts } from './readme-commands.ts';
import { packages, read, root, tree, type Manifest } from './tree.ts';

const files = tree();
const all = packages(files);
const pages = files.filter(({ path }) => /^(?:packages\/[^/]+\/|examples\/[^/]+\/)?README\.md$/.test(path));
const guides = files.filter(({ path }) => /^(?:CONTRIBUTING|ARCHITECTURE|SECURITY)\.md$|^docs\/.*\.md$/.test(path));
const cli = join(root, 'packages', 'cli', 'src', 'main.ts');

const helps = new Map<string, string | undefined>();
function help(command: string): string | undefined {
  if (!helps.has(command)) helps.set(command, askForHelp(command));
  return helps.get(command);
}

function askForHelp(command: string): string | undefined {
  // Commander answers an unknown command's --help with the general help, so the command has to be listed there.
  const words = command === '' ? [] : command.split(' ');
  const last = words.at(-1);
  const listed =
    last === undefined || new RegExp(`^\\s+${last}\\b`, 'm').test(help(words.slice(0, -1).join(' ')) ?? '');
  if (!listed) return undefined;
  const args = ['--conditions=@leasehold/source', cli, ...words, '--help'];
  const { status, stdout } = spawnSync(process.execPath, args, {
    encoding: 'utf8',
    env: { ...process.env, NO_COLOR: '1' },
  });
  return status === 0 ? stdout : undefined;
}

const facts: Facts = {
  scripts: (JSON.parse(read('package.json')) as Manifest).scripts ?? {},
  programs: new Set(readdirSync(join(root, 'node_modules', '.bin'))),
  published: new Set(all.filter(({ manifest }) => !manifest.private).map(({ manifest }) => manifest.name)),
  help,
};

test('the commands that pages tell to type exist, with their options', () => {
  const commands = commandsOf([...pages, ...guides].flatMap(({ path, text }) => fences(path, text)));
  expect(commands.flatMap((command) => commandProblem(command, facts) ?? [])).toEqual([]);
});

test('continuous integration runs the commands of the front page as they stand there', () => {
  const lines = fences('README.md', read('README.md'))
    .filter(({ language }) => ['sh', 'bash', 'shell'].includes(language))
    .flatMap(({ code }) => code.split('\n').map((line) => line.replace(/\s#.*$/, '').trim()))
    .filter((line) => line.startsWith('npm ci'));
  expect(lines).not.toEqual([]);
  const run = read('.ci/run');
  expect(lines.filter((line) => !run.includes(line))).toEqual([]);
});

test('the TypeScript of pages and of TSDoc examples compiles', () => {
  const blocks = [
    ...[...pages, ...guides].flatMap(({ path, text }) => fences(path, text)),
    ...all.flatMap(({ sources }) => sources.flatMap(docFences)),
  ];
  expect(codeProblems(blocks, 'pages')).toEqual([]);
});

test('links between pages lead somewhere', () => {
  const broken = [...pages, ...guides].flatMap(({ path, text }) =>
    [...text.matchAll(/\]\((?!https?:|mailto:|#)([^)#\s]+)/g)].flatMap(([, target = '']) => {
      const file = new URL(target, `file:///${path}`).pathname.slice(1);
      return existsSync(join(root, file)) ? [] : [`${path} links to ${target}`];
    }),
  );
  expect(broken).toEqual([]);
});

const fixture: Facts = {
  scripts: { demo: 'node packages/cli/src/main.ts demo', lint: 'oxlint' },
  programs: new Set(['vitest']),
  published: new Set(['@leasehold/core']),
  help: (command) =>
    ({
      '': 'Commands:\n  demo\n  aws\n',
      demo: 'Options:\n  -j, --json  machine-readable\n',
      aws: 'Commands:\n  policy\n',
      'aws policy': 'Options:\n  --role <role>\n',
    })[command],
};

function problems(markdown: string): string[] {
  return commandsOf(fences('README.md', markdown)).flatMap((command) => commandProblem(command, fixture) ?? []);
}

test.each([
  ['npm run dmeo', 'there is no script dmeo'],
  ['npm test', 'there is no script test'],
  ['npm run demo -- --xml', 'leasehold demo has no option --xml'],
  ['npm run -s demo -- --xml', 'leasehold demo has no option --xml'],
  ['npx leasehold fly', 'leasehold has no command fly'],
  ['npx leasehold aws fly', 'leasehold has no command aws fly'],
  ['npx leasehold aws policy --rule x', 'leasehold aws policy has no option --rule'],
  ['npx eslint', 'npx eslint would have to be downloaded'],
  ['npm install @leasehold/cor', 'no package is called @leasehold/cor'],
  ['npm link', 'npm link is not a command a page should need'],
])('the check of commands reports %s', (line, problem) => {
  expect(problems(`Text\n\n\`\`\`sh\n${line}\n\`\`\`\n`)).toEqual([`README.md:4 says "${line}": ${problem}`]);
});

test('the check of commands understands chains, prompts, comments, variables and continued lines', () => {
  const shell = '```sh\nnpm ci && npm run demo -- --json | jq . # all of it\nCI=1 npm run \\\n  dmeo\n```\n';
  const output = '```console\n$ npm run lint\nnpm run dmeo is what it printed\n```\n';
  expect(problems(shell + output)).toEqual(['README.md:3 says "npm run dmeo": there is no script dmeo']);
});

test('the check of code reports the place of a mistake, in blocks, continued blocks and TSDoc', () => {
  const markdown = [
    '```ts',
    "import { systemClock } from '@leasehold/core';",
    'const clock = systemClock();',
    '```',
    'and then',
    '```ts continued',
    'const now: string = clock.wall();',
    '```',
    '```ts',
    'clock.wall();',
    '```',
  ].join('\n');
  const source = {
    path: 'a.ts',
    text: 'const x = 1;\n/**\n * ```ts\n * const y: number = "";\n * ```\n */\nexport const z = x;\n',
  };
  const blocks: Fence[] = [...fences('README.md', markdown), ...docFences(source)];
  expect(codeProblems(blocks, 'fixture')).toEqual([
    "README.md:7 error TS2322: Type 'number' is not assignable to type 'string'.",
    "README.md:10 error TS2304: Cannot find name 'clock'.",
    "a.ts:4 error TS2322: Type 'string' is not assignable to type 'number'.",
  ]);
});

test('a fence that never closes is an error', () => {
  expect(() => fences('README.md', '```ts\nconst x = 1;')).toThrow('README.md:2 opens a fence that never closes');
});
