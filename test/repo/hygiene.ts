import { Visitor } from 'oxc-parser';
import { lineOf, parse, type SourceFile } from './tree.ts';

const longest = 400;
const vagueNames = new Set(['utils', 'util', 'helpers', 'helper', 'common', 'types', 'misc', 'shared']);

/** Places that exist on one machine only, and servers that packages were fetched from. */
const foreign: readonly { readonly what: string; readonly pattern: RegExp }[] = [
  {
    what: 'an absolute path of one machine',
    pattern: /(?<![\w.\-/])\/(?:home|Users|root|work|workspace|private|mnt)\/[\w.-]+|\b[A-Z]:\\\w+/g,
  },
  { what: 'a file URL', pattern: /file:\/\/\/[\w.-]+/g },
  {
    what: 'the host of a package registry',
    pattern:
      /"resolved": "https?:[^"\s]*|https?:\/\/[\w.:-]*(?:registry|artifactory|nexus|verdaccio|npmjs\.org)[\w.:/-]*/g,
  },
];

/** Reports text that holds only where it was written: machine paths, registry hosts; also in the lockfile. */
export function foreignText({ path, text }: SourceFile): string[] {
  return foreign.flatMap(({ what, pattern }) =>
    [...text.matchAll(pattern)].map(({ 0: found, index }) => `${path}:${lineOf(text, index)} holds ${what}: ${found}`),
  );
}

/** Reports a file whose name says nothing, that is too long, or (in a package's src) is not in kebab-case. */
export function shapeProblems({ path, text }: SourceFile): string[] {
  const name = path.slice(path.lastIndexOf('/') + 1).replace(/(?:\.test)?\.\w+$/, '');
  const problems: string[] = [];
  if (!path.endsWith('.ts')) return problems;
  if (vagueNames.has(name)) problems.push(`${path} is named after nothing in particular`);
  if (/^packages\/[^/]+\/src\//.test(path)) {
    const lines = text.trimEnd().split('\n').length;
    if (lines > longest) problems.push(`${path} has ${lines} lines, more than ${longest}: it is two files`);
    if (!/^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(name)) problems.push(`${path} is not named in kebab-case`);
  }
  return problems;
}

const runners = new Set(['it', 'test', 'describe', 'suite', 'bench']);

/** Reports what must not be committed: focused or skipped tests, `any`, silenced type errors, swallowed errors, reminders. */
export function codeProblems(file: SourceFile): string[] {
  const { program, comments } = parse(file);
  const problems: string[] = [];
  const report = (offset: number, what: string): void => {
    problems.push(`${file.path}:${lineOf(file.text, offset)} ${what}`);
  };
  for (const { value, start } of comments) {
    if (/@ts-(?:ignore|nocheck)/.test(value)) report(start, 'silences the type checker');
    if (/(?:eslint|oxlint)-disable/.test(value) && !/-disable-(?:next-)?line .+ -- \S/.test(value)) {
      report(start, 'disables a lint rule for more than a line, or without a reason after --');
    }
    if (/\b(?:TODO|FIXME|XXX|HACK)\b/.test(value)) report(start, 'leaves a reminder instead of the work');
  }
  new Visitor({
    MemberExpression({ object, property, start }) {
      if (property.type !== 'Identifier' || !['only', 'skip', 'todo'].includes(property.name)) return;
      let base = object;
      while (base.type === 'MemberExpression') base = base.object;
      if (base.type === 'Identifier' && runners.has(base.name)) report(start, `has a test marked .${property.name}`);
    },
    TSAnyKeyword: ({ start }) => report(start, 'says any'),
    CatchClause({ body, start }) {
      const explained = comments.some((comment) => comment.start > body.start && comment.end < body.end);
      if (body.body.length === 0 && !explained) report(start, 'swallows an error without a word');
    },
  }).visit(program);
  return problems;
}
