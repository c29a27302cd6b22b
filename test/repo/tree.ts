import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseSync, type ParseResult } from 'oxc-parser';

/** The top of the repository. */
export const root: string = join(import.meta.dirname, '..', '..');

/** A text file, its path relative to the repository with forward slashes. */
export interface SourceFile {
  readonly path: string;
  readonly text: string;
}

/** What the checks read of a package.json. */
export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly private?: boolean;
  readonly exports?: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
  readonly scripts?: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

/** One package of the workspace with the text of its `src`. */
export interface Package {
  readonly folder: string;
  readonly manifest: Manifest;
  /** The folders its tsconfig.json refers to. */
  readonly references: readonly string[];
  readonly sources: readonly SourceFile[];
}

// The same list as .gitignore; git itself is not asked, so that an exported tree without history can be checked too.
const skippedFolders = new Set(['node_modules', 'dist', 'coverage', '.git', '.leasehold']);
const skippedFiles = /\.(?:tsbuildinfo|tgz|sqlite|sqlite-wal|sqlite-shm)$/;

function list(folder: string): string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
    if (entry.isDirectory()) return skippedFolders.has(entry.name) ? [] : list(path);
    return entry.isFile() && !skippedFiles.test(entry.name) ? [path] : [];
  });
}

/** Reads one file of the repository. */
export function read(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

/** Every file that would be tracked, sorted by path. */
export function tree(): SourceFile[] {
  return list('')
    .toSorted()
    .map((path) => ({ path, text: read(path) }));
}

/** The packages below `packages/`, and the examples, which are published with them. */
export function packages(files: readonly SourceFile[]): Package[] {
  const folders = files.flatMap(({ path }) => /^((?:packages|examples)\/[^/]+)\/package\.json$/.exec(path)?.[1] ?? []);
  return folders.map((folder) => {
    const config = JSON.parse(read(`${folder}/tsconfig.json`)) as { references?: { path: string }[] };
    return {
      folder,
      manifest: JSON.parse(read(`${folder}/package.json`)) as Manifest,
      references: (config.references ?? []).map(({ path }) => path),
      sources: files.filter(({ path }) => path.startsWith(`${folder}/src/`) && path.endsWith('.ts')),
    };
  });
}

/** Parses a TypeScript file; one that does not parse is an error of the check itself. */
export function parse(file: SourceFile): ParseResult {
  const result = parseSync(file.path, file.text, { sourceType: 'module' });
  const [first] = result.errors;
  if (first) throw new Error(`${file.path} does not parse: ${first.message}`);
  return result;
}

/** The line of an offset, counted from 1. */
export function lineOf(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length;
}
