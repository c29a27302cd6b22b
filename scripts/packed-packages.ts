import { globSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { run } from './program.ts';

/** The top of the repository. */
export const root: string = join(import.meta.dirname, '..');

/** What the checks read of a package.json. */
export interface PackageManifest {
  readonly files?: readonly string[];
  readonly name: string;
  readonly version: string;
  readonly private?: boolean;
  readonly exports?: Readonly<Record<string, unknown>>;
  readonly bin?: Readonly<Record<string, string>>;
  readonly engines?: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>;
}

/** A package as it would be published. */
export interface PackedPackage {
  readonly folder: string;
  readonly manifest: PackageManifest;
  readonly tarball: string;
  readonly integrity: string;
  readonly bytes: number;
  readonly files: readonly string[];
}

interface PackReport {
  readonly filename: string;
  readonly integrity: string;
  readonly size: number;
  readonly files: readonly { readonly path: string }[];
}

/** Builds every package that is published, from nothing, and packs it into `target`. Throws with the compiler's or npm's words. */
export function packAll(target: string): PackedPackage[] {
  const packages = globSync('{packages,examples}/*/package.json', { cwd: root })
    .toSorted()
    .map((path) => ({
      folder: join(root, path, '..'),
      manifest: JSON.parse(readFileSync(join(root, path), 'utf8')) as PackageManifest,
    }))
    .filter(({ manifest }) => !manifest.private);

  // A file left from a source that is gone would be packed with the rest.
  for (const { folder } of packages) rmSync(join(folder, 'dist'), { recursive: true, force: true });
  const folders = packages.map(({ folder }) => folder);
  const build = run(join(root, 'node_modules', '.bin', 'tsc'), ['-b', ...folders], root);
  if (!build.ok) throw new Error(`The packages do not build:\n${build.output}`);

  return packages.map(({ folder, manifest }) => {
    const pack = run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', target], folder);
    if (!pack.ok) throw new Error(`npm pack of ${manifest.name} failed:\n${pack.output}`);
    const [report] = JSON.parse(pack.stdout) as PackReport[];
    if (!report) throw new Error(`npm pack of ${manifest.name} reported nothing`);
    return {
      folder,
      manifest,
      tarball: join(target, report.filename),
      integrity: report.integrity,
      bytes: report.size,
      files: report.files.map(({ path }) => path),
    };
  });
}
