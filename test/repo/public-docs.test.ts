import { expect, test } from 'vitest';
import { publicDocs } from './public-docs.ts';
import { packages, read, tree } from './tree.ts';

const entries = packages(tree()).flatMap(({ folder, manifest }) =>
  Object.entries(manifest.exports ?? {}).flatMap(([path, target]) => {
    const source = typeof target === 'string' ? undefined : target['@leasehold/source'];
    return source === undefined ? [] : [{ name: manifest.name + path.slice(1), entry: `${folder}/${source.slice(2)}` }];
  }),
);

test.each(entries)('everything that $name exports has a comment', ({ entry }) => {
  const { exported, problems } = publicDocs(entry, read);
  expect(problems).toEqual([]);
  expect(exported).not.toEqual([]);
});

function report(files: Readonly<Record<string, string>>): ReturnType<typeof publicDocs> {
  return publicDocs('a.ts', (path) => {
    const text = files[path];
    if (text === undefined) throw new Error(`no ${path}`);
    return text;
  });
}

test.each<[string, Record<string, string>, string[]]>([
  ['a bare function', { 'a.ts': 'export function f() {}' }, ['a.ts:1 exports f without a comment']],
  [
    'a comment that belongs to something else',
    { 'a.ts': '/** about g */\nfunction g() {}\nexport const f = g;' },
    ['a.ts:3 exports f without a comment'],
  ],
  ['a comment that is no TSDoc', { 'a.ts': '// f\nexport const f = 1;' }, ['a.ts:2 exports f without a comment']],
  ['an empty comment', { 'a.ts': '/** */\nexport const f = 1;' }, ['a.ts:2 exports f without a comment']],
  [
    'an export passed on by export *',
    { 'a.ts': "export * from './b.ts';", 'b.ts': "export * from './c.ts';", 'c.ts': 'export type T = 1;' },
    ['c.ts:1 exports T without a comment'],
  ],
  [
    'a renamed re-export',
    { 'a.ts': "export { f as g } from './b.ts';", 'b.ts': 'export const f = 1;' },
    ['b.ts:1 exports g without a comment'],
  ],
  [
    'an import that is exported',
    { 'a.ts': "import { f } from './b.ts';\nexport { f };", 'b.ts': 'export const f = 1;' },
    ['b.ts:1 exports f without a comment'],
  ],
  [
    'a name found behind export *',
    { 'a.ts': "export { f } from './b.ts';", 'b.ts': "export * from './c.ts';", 'c.ts': 'export const f = 1;' },
    ['c.ts:1 exports f without a comment'],
  ],
  [
    'a silent method of an interface',
    {
      'a.ts':
        '/** A seam. */\nexport interface S { readonly name: string; /** Sends. */ send(): void; stop: () => void }',
    },
    ['a.ts:2 exports S, whose stop() has no comment'],
  ],
  [
    'a silent method of a class',
    {
      'a.ts':
        '/** A box. */\nexport class B { #own() {} private mine() {} override toString() { return ""; } open() {} }',
    },
    ['a.ts:2 exports B, whose open() has no comment'],
  ],
  [
    'a silent method of an object type',
    { 'a.ts': '/** A box. */\nexport type B = { open(): void };' },
    ['a.ts:2 exports B, whose open() has no comment'],
  ],
])('the check reports %s', (_what, files, problems) => {
  expect(report(files).problems).toEqual(problems);
});

test('the check leaves alone what has comments, is not exported or belongs to another package', () => {
  const files = {
    'a.ts': `import { z } from 'zod';
      export { z };
      export * from '@leasehold/core';
      function hidden() {}
      /** Two ways. */
      export function f(a: string): void;
      export function f(a: number): void;
      export function f(a: unknown): void { hidden(); void a; }`,
  };
  expect(report(files)).toEqual({ exported: ['f'], problems: [] });
});
