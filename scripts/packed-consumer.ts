import { copyFileSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fences } from './markdown-fences.ts';
import { root, type PackedPackage } from './packed-packages.ts';
import { run, supportedNodes } from './program.ts';

interface LockEntry {
  readonly version?: string;
  readonly dev?: boolean;
  readonly link?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly [field: string]: unknown;
}

/** One outcome per question, as a row of the summary. */
export interface ConsumerCheck {
  readonly what: string;
  readonly ok: boolean;
  readonly output: string;
}

const compilerPackages = ['@types/node', 'undici-types'];

/**
 * The lockfile of a project outside the repository that depends on the tarballs: third-party packages in the versions of the repository's
 * own lockfile, so that the outcome is the same every day and `npm ci` has most of it cached.
 */
function lockfile(packed: readonly PackedPackage[], manifest: object): object {
  const own = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, LockEntry>;
  };
  const entries: Record<string, object> = { '': manifest };
  const wanted = new Set([...compilerPackages, ...peersOf(packed, own.packages)]);
  for (const [path, entry] of Object.entries(own.packages)) {
    const name = path.slice('node_modules/'.length);
    if (entry.link || (entry.dev && !wanted.has(name))) continue;
    const [, folder, below] = /^(packages\/[^/]+)\/(node_modules\/.+)$/.exec(path) ?? [];
    if (path.startsWith('node_modules/')) {
      entries[path] = { ...entry, dev: undefined };
    } else if (folder !== undefined) {
      const parent = packed.find((one) => one.folder === join(root, folder));
      if (parent) entries[`node_modules/${parent.manifest.name}/${below}`] = entry;
    }
  }
  for (const {
    manifest: { name, version, dependencies, peerDependencies, peerDependenciesMeta, bin, engines },
    tarball,
    integrity,
  } of packed) {
    const resolved = `file:${basename(tarball)}`;
    entries[`node_modules/${name}`] = {
      name,
      version,
      resolved,
      integrity,
      dependencies,
      peerDependencies,
      peerDependenciesMeta,
      bin,
      engines,
    };
  }
  return { name: 'consumer', lockfileVersion: 3, requires: true, packages: entries };
}

/** What the packages want beside them, and what that depends on: in the repository these are for development alone. */
function peersOf(packed: readonly PackedPackage[], locked: Readonly<Record<string, LockEntry>>): ReadonlySet<string> {
  const names = new Set(packed.flatMap(({ manifest }) => Object.keys(manifest.peerDependencies ?? {})));
  for (const name of names)
    for (const below of Object.keys(locked[`node_modules/${name}`]?.dependencies ?? {})) names.add(below);
  return names;
}

function entryPoints(packed: readonly PackedPackage[]): string[] {
  return packed.flatMap(({ manifest }) =>
    Object.keys(manifest.exports ?? {})
      .filter((path) => path !== './package.json')
      .map((path) => manifest.name + path.slice(1)),
  );
}

/** The examples of the packages' pages, as far as they import nothing but the packages and Node. */
function pageExamples(): string[] {
  const modules: string[] = [];
  for (const path of globSync(['README.md', 'packages/*/README.md'], { cwd: root }).toSorted()) {
    for (const { language, continued, code } of fences(path, readFileSync(join(root, path), 'utf8'))) {
      if (language !== 'ts') continue;
      modules.push(continued ? `${modules.pop() ?? ''}\n${code}` : code);
    }
  }
  return modules.filter((code) =>
    [...code.matchAll(/from '([^']+)'/g)].every(([, from]) => /^(?:node:|@leasehold\/)/.test(from ?? '')),
  );
}

function writeSources(folder: string, names: readonly string[]): void {
  const imports = names.map((name, index) => `import * as entry${index} from '${name}';`);
  const list = names.map((name, index) => `  ['${name}', entry${index}],`);
  const esm = [...imports, 'const entries: [string, object][] = [', ...list, '];'];
  const show = [
    'for (const [name, entry] of entries) {',
    "  if (Object.keys(entry).length === 0) throw new Error(name + ' exports nothing');",
    '  console.log(name + ": " + Object.keys(entry).toSorted().join(" "));',
    '}',
  ];
  const requires = names.map((name, index) => `import entry${index} = require('${name}');`);
  writeFileSync(join(folder, 'consumer.mts'), [...esm, ...show].join('\n'));
  writeFileSync(join(folder, 'consumer.cts'), [...requires, ...esm.slice(imports.length), ...show].join('\n'));
  for (const [index, code] of pageExamples().entries()) {
    writeFileSync(join(folder, `example-${index}.mts`), `${code}\nexport {};\n`);
  }
}

function writeConfig(
  folder: string,
  name: string,
  module: string,
  resolution: string,
  include: readonly string[],
): void {
  const compilerOptions = {
    module,
    moduleResolution: resolution,
    target: 'es2023',
    strict: true,
    exactOptionalPropertyTypes: true,
    // The declarations that were packed are what is checked here.
    skipLibCheck: false,
    types: ['node'],
    outDir: `out-${name}`,
  };
  writeFileSync(join(folder, `tsconfig.${name}.json`), JSON.stringify({ compilerOptions, include }));
}

/**
 * Installs the tarballs into an empty project, compiles a consumer of every entry point and the pages' examples under `node16`,
 * `nodenext` and `bundler` resolution, and runs it as a module and through require() on every supported Node at hand.
 */
export function checkAsConsumer(packed: readonly PackedPackage[], folder: string): ConsumerCheck[] {
  const checks: ConsumerCheck[] = [];
  const check = (what: string, program: string, args: readonly string[]): ConsumerCheck => {
    const { ok, output } = run(program, args, folder);
    const row = { what, ok, output };
    checks.push(row);
    return row;
  };
  mkdirSync(folder, { recursive: true });
  for (const { tarball } of packed) copyFileSync(tarball, join(folder, basename(tarball)));
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, LockEntry>;
  };
  const manifest = {
    name: 'consumer',
    private: true,
    dependencies: Object.fromEntries([
      ...packed.map(({ manifest: { name }, tarball }) => [name, `file:${basename(tarball)}`]),
      ...compilerPackages.map((name) => [name, lock.packages[`node_modules/${name}`]?.version]),
    ]) as Record<string, string>,
  };
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest));
  writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(lockfile(packed, manifest)));
  const install = ['ci', '--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund'];
  if (!check('npm ci of the tarballs', 'npm', install).ok) return checks;

  writeSources(folder, entryPoints(packed));
  writeConfig(folder, 'node16', 'node16', 'node16', ['*.mts']);
  writeConfig(folder, 'nodenext', 'nodenext', 'nodenext', ['*.mts', '*.cts']);
  writeConfig(folder, 'bundler', 'esnext', 'bundler', ['*.mts']);
  const tsc = join(root, 'node_modules', '.bin', 'tsc');
  for (const name of ['node16', 'bundler', 'nodenext']) {
    check(`types under ${name} resolution`, tsc, ['-p', `tsconfig.${name}.json`]);
  }
  for (const { version, program } of supportedNodes(folder)) {
    const quiet = '--disable-warning=ExperimentalWarning';
    const imported = check(`import on Node ${version}`, program, [quiet, 'out-nodenext/consumer.mjs']);
    const required = check(`require() on Node ${version}`, program, [quiet, 'out-nodenext/consumer.cjs']);
    const same = imported.output === required.output;
    checks.push({
      what: `both see the same on ${version}`,
      ok: same,
      output: `${imported.output}\n---\n${required.output}`,
    });
    for (const { manifest: own } of packed) {
      for (const [name, path] of Object.entries(own.bin ?? {})) {
        const script = join('node_modules', own.name, path);
        const { output } = check(`${name} --help on Node ${version}`, program, [quiet, script, '--help']);
        if (/^\s+demo\b/m.test(output))
          check(`${name} demo on Node ${version}`, program, [quiet, script, 'demo', '--json']);
      }
    }
  }
  return checks;
}
