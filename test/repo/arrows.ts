import { relative } from 'node:path/posix';
import { Visitor } from 'oxc-parser';
import { lineOf, parse, type Package, type SourceFile } from './tree.ts';

interface Arrow {
  /** Packages of ours it may import at all. */
  readonly to: readonly string[] | 'anything';
  /** Packages of ours it may only load on demand, with `import()`. */
  readonly onDemand?: readonly string[];
}

const drivers = ['sqlite', 'sqs', 'pubsub', 'servicebus', 'dynamodb', 'postgres', 'etcd'];

/** Who may import whom. A package that is not listed here has no place in the design yet. */
const arrows: Readonly<Record<string, Arrow>> = {
  core: { to: [] },
  ...Object.fromEntries(drivers.map((name) => [name, { to: ['core'] }])),
  aws: { to: ['core'] },
  sqs: { to: ['core', 'aws'] },
  dynamodb: { to: ['core', 'aws'] },
  worker: { to: ['core'] },
  guard: { to: ['core'] },
  contract: { to: ['core'] },
  telemetry: { to: ['core'] },
  config: { to: ['core'], onDemand: drivers },
  serverless: { to: ['core', 'worker'] },
  emulators: { to: [] },
  cli: { to: 'anything' },
  helpdesk: { to: 'anything' },
  leasehold: { to: ['core', 'worker', 'config', 'cli'] },
};

interface Import {
  readonly specifier: string | undefined;
  readonly onDemand: boolean;
  readonly line: number;
}

function importsOf(file: SourceFile): Import[] {
  const { module, program } = parse(file);
  const found: Import[] = [];
  const add = (specifier: string | undefined, onDemand: boolean, offset: number): void => {
    found.push({ specifier, onDemand, line: lineOf(file.text, offset) });
  };
  for (const { moduleRequest, start } of module.staticImports) add(moduleRequest.value, false, start);
  for (const { entries, start } of module.staticExports) {
    const source = entries[0]?.moduleRequest;
    if (source) add(source.value, false, start);
  }
  new Visitor({
    ImportExpression({ source, start }) {
      add(source.type === 'Literal' && typeof source.value === 'string' ? source.value : undefined, true, start);
    },
    TSImportType({ source, start }) {
      add(source.value, false, start);
    },
  }).visit(program);
  return found;
}

function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

function topLevelAwaits(file: SourceFile): number[] {
  const offsets: number[] = [];
  let depth = 0;
  const enter = (): void => void depth++;
  const leave = (): void => void depth--;
  const found = (start: number): void => {
    if (depth === 0) offsets.push(start);
  };
  new Visitor({
    FunctionDeclaration: enter,
    'FunctionDeclaration:exit': leave,
    FunctionExpression: enter,
    'FunctionExpression:exit': leave,
    ArrowFunctionExpression: enter,
    'ArrowFunctionExpression:exit': leave,
    AwaitExpression: ({ start }) => found(start),
    ForOfStatement(node) {
      if (node.await) found(node.start);
    },
    VariableDeclaration(node) {
      if (node.kind === 'await using') found(node.start);
    },
  }).visit(parse(file).program);
  return offsets;
}

function fileProblems(file: SourceFile, { folder, manifest }: Package, used: Set<string>): string[] {
  const own = folder.slice(folder.lastIndexOf('/') + 1);
  const allowed = arrows[own];
  const problems: string[] = [];
  for (const { specifier, onDemand, line } of importsOf(file)) {
    const at = `${file.path}:${line}`;
    // What a user names on the command line is imported by the command line, in files that do nothing else.
    if (specifier === undefined && /^packages\/cli\/src\/.*\/load-[^/]+\.ts$/.test(file.path)) continue;
    if (specifier === undefined) {
      problems.push(`${at} imports something that only running it can tell: bundlers need a literal`);
    } else if (specifier.startsWith('.')) {
      const target = new URL(specifier, `file:///${file.path}`).pathname;
      if (!target.startsWith(`/${folder}/src/`)) problems.push(`${at} reaches out of its package with ${specifier}`);
      if (!specifier.endsWith('.ts')) problems.push(`${at} imports ${specifier} without its .ts ending`);
    } else if (!specifier.startsWith('node:')) {
      const name = packageOf(specifier);
      used.add(name);
      const ours = name.startsWith('@leasehold/') ? name.slice('@leasehold/'.length) : undefined;
      if (own === 'core') problems.push(`${at} imports ${specifier}: core depends on nothing`);
      else if (name === manifest.name) problems.push(`${at} imports its own package by name`);
      else if (ours !== undefined && allowed && allowed.to !== 'anything' && !allowed.to.includes(ours)) {
        if (!allowed.onDemand?.includes(ours) || !onDemand) problems.push(`${at} imports ${name}: ${own} may not`);
      }
    }
  }
  for (const offset of topLevelAwaits(file)) {
    problems.push(
      `${file.path}:${lineOf(file.text, offset)} awaits at the top level: require() would refuse the package`,
    );
  }
  return problems;
}

/**
 * What is wrong with the imports of one package: arrows that the design does not have, dependencies that are undeclared, unused or
 * not pinned to the sibling's version, project references that differ from them, top-level await.
 */
export function importProblems(pkg: Package, all: readonly Package[]): string[] {
  const { folder, manifest } = pkg;
  const own = folder.slice(folder.lastIndexOf('/') + 1);
  const used = new Set<string>();
  const problems = pkg.sources.flatMap((file) => fileProblems(file, pkg, used));
  if (!arrows[own]) problems.push(`${folder} is not in the list of arrows`);

  const declared = { ...manifest.peerDependencies, ...manifest.dependencies };
  for (const name of used) {
    if (!(name in declared)) problems.push(`${folder}/package.json does not declare ${name}`);
  }
  for (const [name, range] of Object.entries(declared)) {
    if (!used.has(name)) problems.push(`${folder}/package.json declares ${name}, which src does not import`);
    const sibling = all.find((other) => other.manifest.name === name);
    if (sibling && range !== sibling.manifest.version) {
      problems.push(`${folder}/package.json wants ${name} ${range}, not exactly ${sibling.manifest.version}`);
    }
  }
  const expected = Object.keys(declared)
    .filter((name) => name.startsWith('@leasehold/'))
    .map((name) =>
      relative(folder, all.find((other) => other.manifest.name === name)?.folder ?? `packages/${name.slice(11)}`),
    );
  if (expected.toSorted().join() !== pkg.references.toSorted().join()) {
    problems.push(
      `${folder}/tsconfig.json refers to [${pkg.references.join()}], its dependencies are [${expected.join()}]`,
    );
  }
  return problems;
}
