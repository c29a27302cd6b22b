import { expect, test } from 'vitest';
import { codeProblems, foreignText, shapeProblems } from './hygiene.ts';
import { packages, tree } from './tree.ts';

const files = tree();
const code = files.filter(({ path }) => path.endsWith('.ts'));

test('no file holds a path of one machine or the host of a registry', () => {
  expect(files.some(({ path }) => path === 'package-lock.json')).toBe(true);
  expect(files.flatMap(foreignText)).toEqual([]);
});

test('source files are short and named after what is in them', () => {
  expect(code.flatMap(shapeProblems)).toEqual([]);
});

test('nothing is skipped, focused, silenced or left for later', () => {
  expect(code.length).toBeGreaterThan(10);
  expect(code.flatMap(codeProblems)).toEqual([]);
});

test('every package has a page of its own and the licence', () => {
  const paths = new Set(files.map(({ path }) => path));
  const missing = packages(files).flatMap(({ folder, manifest }) =>
    [`${folder}/README.md`, ...(manifest.private ? [] : [`${folder}/LICENSE`])].filter((path) => !paths.has(path)),
  );
  expect(missing).toEqual([]);
});

// Put together at run time, so that this file does not hold them itself.
const home = ['', 'home', 'ann', 'project'].join('/');
const registry = ['https:', '', 'registry.example.net', 'x.tgz'].join('/');
const locked = ['"resolved":', '"https://example.net/x.tgz'].join(' ');
const fileUrl = ['file:', '', '', 'opt'].join('/');

test.each([
  [`run ${home}/x`, `a.md:1 holds an absolute path of one machine: ${home.slice(0, 9)}`],
  [`url = ${fileUrl}`, `a.md:1 holds a file URL: ${fileUrl}`],
  [`see ${registry}`, `a.md:1 holds the host of a package registry: ${registry}`],
  [`${locked}"`, `a.md:1 holds the host of a package registry: ${locked}`],
])('the check reports %s', (text, problem) => {
  expect(foreignText({ path: 'a.md', text })).toEqual([problem]);
});

test('the check allows paths inside the project and ordinary addresses', () => {
  const text =
    'packages/home/x ./root/y https://example.org/home/z /etc/hosts file:packages/core.tgz https://www.npmjs.com/x';
  expect(foreignText({ path: 'a.md', text })).toEqual([]);
});

test.each([
  ['packages/core/src/utils.ts', '', 'packages/core/src/utils.ts is named after nothing in particular'],
  ['packages/core/test/helpers.test.ts', '', 'packages/core/test/helpers.test.ts is named after nothing in particular'],
  ['packages/core/src/taskRecord.ts', '', 'packages/core/src/taskRecord.ts is not named in kebab-case'],
  [
    'packages/core/src/a.ts',
    'x;\n'.repeat(401),
    'packages/core/src/a.ts has 401 lines, more than 400: it is two files',
  ],
])('the check reports the shape of %s', (path, text, problem) => {
  expect(shapeProblems({ path, text })).toEqual([problem]);
});

test.each([
  ["it.only('x', () => {});", 'has a test marked .only'],
  ["describe.concurrent.skip('x', () => {});", 'has a test marked .skip'],
  ["test.todo('x');", 'has a test marked .todo'],
  ['let x: any;', 'says any'],
  ['f(x as unknown as any[]);', 'says any'],
  [['//', '@ts-ignore'].join(' '), 'silences the type checker'],
  [['/*', 'TODO later', '*/'].join(' '), 'leaves a reminder instead of the work'],
  [
    ['//', 'eslint-disable-next-line no-console'].join(' '),
    'disables a lint rule for more than a line, or without a reason after --',
  ],
  [
    ['/*', 'oxlint-disable no-console -- quiet', '*/'].join(' '),
    'disables a lint rule for more than a line, or without a reason after --',
  ],
  ['try { f(); } catch {}', 'swallows an error without a word'],
])('the check reports %s', (text, problem) => {
  expect(codeProblems({ path: 'a.ts', text })).toEqual([`a.ts:1 ${problem}`]);
});

test('the check does not mistake text, fields or an explained catch or lint rule for what it looks for', () => {
  const text =
    "const only = '.only any'; task.skip(); queue.test.only; try { f(); } catch { /* Closing twice is fine. */ }\n// eslint-disable-next-line no-console -- a program";
  expect(codeProblems({ path: 'a.ts', text })).toEqual([]);
});
