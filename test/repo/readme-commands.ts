import type { Fence } from '../../scripts/markdown-fences.ts';

/** One command line that a page tells its reader to type. */
export interface Command {
  readonly at: string;
  readonly words: readonly string[];
}

/** What commands may refer to. */
export interface Facts {
  /** The scripts of the root package.json with their text. */
  readonly scripts: Readonly<Record<string, string>>;
  /** Programs that `npx` finds after `npm ci`. */
  readonly programs: ReadonlySet<string>;
  /** Names of the packages that can be installed. */
  readonly published: ReadonlySet<string>;
  /** The help text of a command of the CLI (`demo`, `aws policy`), or of the CLI itself for an empty name; undefined where there is none. */
  readonly help: (command: string) => string | undefined;
}

const shells = new Set(['sh', 'bash', 'shell', 'console']);

/** The command lines of shell blocks: joined over `\`, split at `&&`, `;` and `|`; in `console` blocks the lines after a prompt. */
export function commandsOf(blocks: readonly Fence[]): Command[] {
  return blocks
    .filter(({ language }) => shells.has(language))
    .flatMap(({ path, line: first, language, code }) =>
      code.split('\n').flatMap((raw, index, lines) => {
        if (index > 0 && lines[index - 1]?.endsWith('\\')) return [];
        let text = raw;
        for (let next = index; text.endsWith('\\');) text = text.slice(0, -1) + (lines[++next]?.trim() ?? '');
        if (language === 'console' && !text.startsWith('$ ')) return [];
        return text
          .replace(/^\$ /, '')
          .replace(/(?:^|\s)#.*$/, '')
          .split(/&&|\|\|?|;/)
          .map((part) =>
            part
              .trim()
              .split(/\s+/)
              .filter((word) => !/^[A-Z_]+=/.test(word)),
          )
          .filter((words) => words.some((word) => word !== ''))
          .map((words) => ({ at: `${path}:${first + index}`, words }));
      }),
    );
}

function cliProblem(args: readonly string[], { help }: Facts): string | undefined {
  const path: string[] = [];
  let text = help('');
  // A command may have commands of its own.
  for (const word of args) {
    if (word.startsWith('-') || text === undefined || !/^Commands:/m.test(text)) break;
    path.push(word);
    text = help(path.join(' '));
  }
  const command = path.join(' ');
  if (text === undefined) return `leasehold has no command ${command}`;
  const unknown = args.find(
    (word) => word.startsWith('-') && word !== '--' && !new RegExp(`(?:^|[\\s,])${word.split('=')[0]}\\b`).test(text),
  );
  return unknown === undefined ? undefined : `leasehold ${command} has no option ${unknown}`;
}

function scriptProblem(name: string, rest: readonly string[], facts: Facts): string | undefined {
  const script = facts.scripts[name];
  if (script === undefined) return `there is no script ${name}`;
  const [, own] = /packages\/cli\/src\/main\.ts(.*)$/.exec(script) ?? [];
  if (own === undefined) return undefined;
  const passed = rest[0] === '--' ? rest.slice(1) : [];
  return cliProblem([...own.split(' ').filter(Boolean), ...passed], facts);
}

/** Why a command would not work, or undefined. Programs that are neither npm's nor ours are not judged. */
export function commandProblem({ at, words }: Command, facts: Facts): string | undefined {
  const [program, verb, ...rest] = words;
  const problem = ((): string | undefined => {
    if (program === 'leasehold') return cliProblem(words.slice(1), facts);
    if (program === 'npx') {
      if (verb === 'leasehold') return cliProblem(rest, facts);
      return verb !== undefined && facts.programs.has(verb) ? undefined : `npx ${verb} would have to be downloaded`;
    }
    if (program !== 'npm') return undefined;
    switch (verb) {
      case 'run': {
        // Without npm's own lines on stdout.
        const script = rest[0] === '-s' ? rest.slice(1) : rest;
        return scriptProblem(script[0] ?? '', script.slice(1), facts);
      }
      case 'test':
      case 'start':
        return scriptProblem(verb, rest, facts);
      case 'install':
      case 'i': {
        const unknown = rest.find((name) => name.startsWith('@leasehold/') && !facts.published.has(name));
        return unknown === undefined ? undefined : `no package is called ${unknown}`;
      }
      default:
        return verb === 'ci' ? undefined : `npm ${verb} is not a command a page should need`;
    }
  })();
  return problem === undefined ? undefined : `${at} says "${words.join(' ')}": ${problem}`;
}
