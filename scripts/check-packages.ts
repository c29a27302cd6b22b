// Packs what would be published and looks at it as its users will: the tarballs' contents, their manifests, their types, a consumer.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { checkAsConsumer } from './packed-consumer.ts';
import { packAll, root, type PackedPackage } from './packed-packages.ts';
import { run } from './program.ts';

/** What a package must and must not hold beyond what publint and attw look at. */
function contentProblems({ files, manifest }: PackedPackage): string[] {
  const needed = ['package.json', 'README.md', 'LICENSE'];
  const missing = needed.filter((name) => !files.includes(name)).map((name) => `does not hold ${name}`);
  // What a package declares beside its code (data that it reads) is no stray.
  const declared = [...needed, ...(manifest.files ?? [])];
  const stray = files.filter((path) => !/^(?:dist|src)\//.test(path) && !declared.includes(path));
  const odd = files.filter((path) => path.endsWith('.tsbuildinfo') || path.includes('.test.'));
  const engine = manifest.engines?.['node'] === '>=22.18' ? [] : ['does not say which Node it needs'];
  return [...missing, ...[...stray, ...odd].map((path) => `holds ${path}`), ...engine];
}

async function manifestProblems({ tarball }: PackedPackage): Promise<string[]> {
  const bytes = new Uint8Array(readFileSync(tarball));
  const { messages, pkg } = await publint({ pack: { tarball: bytes.buffer }, strict: true });
  const manifest = pkg as Record<string, unknown>;
  return messages.map((message) => formatMessage(message, manifest, { color: false }) ?? message.code);
}

function typeProblems({ tarball }: PackedPackage): string[] {
  const attw = join(root, 'node_modules', '.bin', 'attw');
  const { ok, output } = run(
    attw,
    [tarball, '--profile', 'esm-only', '--format', 'ascii', '--no-emoji', '--no-color'],
    root,
  );
  return ok ? [] : [output];
}

async function main(): Promise<void> {
  const temporary = mkdtempSync(join(tmpdir(), 'leasehold-packages-'));
  try {
    const packed = packAll(temporary);
    const complaints: string[] = [];
    const rows: Record<string, string>[] = [];
    for (const one of packed) {
      const found = {
        contents: contentProblems(one),
        publint: await manifestProblems(one),
        attw: typeProblems(one),
      };
      const verdicts = Object.entries(found).map(([check, problems]): [string, string] => {
        complaints.push(...problems.map((problem) => `${one.manifest.name}, ${check}: ${problem}`));
        return [check, problems.length === 0 ? 'ok' : `${problems.length} found`];
      });
      const size = `${Math.ceil(one.bytes / 1024)} KiB, ${one.files.length} files`;
      rows.push({ package: one.manifest.name, packed: size, ...Object.fromEntries(verdicts) });
    }
    console.table(rows);
    const checks = checkAsConsumer(packed, join(temporary, 'consumer'));
    console.table(
      checks.map(({ what, ok }) => ({
        'field case 50: a project that installs the tarballs': what,
        outcome: ok ? 'ok' : 'failed',
      })),
    );
    complaints.push(...checks.filter(({ ok }) => !ok).map(({ what, output }) => `${what}:\n${output}`));

    for (const complaint of complaints) console.error(`\n${complaint}`);
    const asked = packed.length * 3 + checks.length;
    console.log(`\n${asked} checks of ${packed.length} packages, ${complaints.length} complaints`);
    if (complaints.length > 0) process.exitCode = 1;
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

await main();
