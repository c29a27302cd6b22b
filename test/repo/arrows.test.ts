import { expect, test } from 'vitest';
import { importProblems } from './arrows.ts';
import { packages, read, tree, type Manifest, type Package } from './tree.ts';

const all = packages(tree());

test.each(all)('$folder imports only what the design allows and its manifest declares', (pkg) => {
  expect(importProblems(pkg, all)).toEqual([]);
});

test('tsc -b builds every package and checks the tests', () => {
  const { references } = JSON.parse(read('tsconfig.json')) as { references: { path: string }[] };
  const expected = [...all.map(({ folder }) => folder), 'tsconfig.tests.json'];
  expect(references.map(({ path }) => path).toSorted()).toEqual(expected.toSorted());
});

function fixture(name: string, text: string, manifest: Partial<Manifest> = {}, references: string[] = []): Package {
  const folder = `packages/${name}`;
  return {
    folder,
    manifest: { name: `@leasehold/${name}`, version: '1.0.0', ...manifest },
    references,
    sources: [{ path: `${folder}/src/index.ts`, text }],
  };
}

const sibling = fixture('core', '');
const core = { dependencies: { '@leasehold/core': '1.0.0' } };
const worker = { dependencies: { '@leasehold/worker': '1.0.0' } };

test.each<[string, Package, string]>([
  [
    'a driver that imports the worker',
    fixture('sqs', "import { run } from '@leasehold/worker';", worker, ['../worker']),
    'packages/sqs/src/index.ts:1 imports @leasehold/worker: sqs may not',
  ],
  [
    'a driver that loads another driver on demand',
    fixture(
      'sqs',
      "export const f = () => import('@leasehold/sqlite');",
      { dependencies: { '@leasehold/sqlite': '1.0.0' } },
      ['../sqlite'],
    ),
    'packages/sqs/src/index.ts:1 imports @leasehold/sqlite: sqs may not',
  ],
  [
    'a type taken from a forbidden package',
    fixture('guard', "\nexport type W = import('@leasehold/worker').W;", worker, ['../worker']),
    'packages/guard/src/index.ts:2 imports @leasehold/worker: guard may not',
  ],
  [
    'a configuration that imports an adapter statically',
    fixture('config', "export * from '@leasehold/sqs';", { dependencies: { '@leasehold/sqs': '1.0.0' } }, ['../sqs']),
    'packages/config/src/index.ts:1 imports @leasehold/sqs: config may not',
  ],
  [
    'a core with a dependency',
    fixture('core', "import zod from 'zod';", { dependencies: { zod: '4.0.0' } }),
    'packages/core/src/index.ts:1 imports zod: core depends on nothing',
  ],
  [
    'a dynamic import that bundlers cannot follow',
    fixture('worker', 'export const load = (name: string) => import(name);'),
    'packages/worker/src/index.ts:1 imports something that only running it can tell: bundlers need a literal',
  ],
  [
    'a relative import into another package',
    fixture('worker', "export * from '../../core/src/index.ts';"),
    'packages/worker/src/index.ts:1 reaches out of its package with ../../core/src/index.ts',
  ],
  [
    'a relative import without its ending',
    fixture('worker', "export * from './loop';"),
    'packages/worker/src/index.ts:1 imports ./loop without its .ts ending',
  ],
  [
    'an undeclared dependency',
    fixture('worker', "import ms from 'ms';"),
    'packages/worker/package.json does not declare ms',
  ],
  [
    'an unused dependency',
    fixture('worker', '', core, ['../core']),
    'packages/worker/package.json declares @leasehold/core, which src does not import',
  ],
  [
    'a sibling that is not pinned',
    fixture('worker', "import '@leasehold/core';", { dependencies: { '@leasehold/core': '^1.0.0' } }, ['../core']),
    'packages/worker/package.json wants @leasehold/core ^1.0.0, not exactly 1.0.0',
  ],
  [
    'a missing project reference',
    fixture('worker', "import '@leasehold/core';", core),
    'packages/worker/tsconfig.json refers to [], its dependencies are [../core]',
  ],
  ['a package without a place', fixture('extra', ''), 'packages/extra is not in the list of arrows'],
  [
    'an await at the top level',
    fixture('worker', 'const a = async () => { await 1; };\nawait a();'),
    'packages/worker/src/index.ts:2 awaits at the top level: require() would refuse the package',
  ],
  [
    'a for await at the top level',
    fixture('worker', 'for await (const x of []) x;'),
    'packages/worker/src/index.ts:1 awaits at the top level: require() would refuse the package',
  ],
])('the check reports %s', (_what, pkg, problem) => {
  expect(importProblems(pkg, [sibling])).toEqual([problem]);
});

test('the check lets a configuration load an adapter on demand', () => {
  const manifest = { peerDependencies: { '@leasehold/sqs': '1.0.0' } };
  const pkg = fixture('config', "export const load = () => import('@leasehold/sqs');", manifest, ['../sqs']);
  expect(importProblems(pkg, [sibling])).toEqual([]);
});
