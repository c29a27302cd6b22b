import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Fence } from '../../scripts/markdown-fences.ts';
import { root } from './tree.ts';

interface Placed {
  readonly first: number;
  readonly length: number;
  readonly fence: Fence;
}

/**
 * Type-checks TypeScript blocks under the repository's own strict options, each as a module of its own (or as the rest of the one
 * before it, when it says `continued`), and returns the complaints with the place in the page.
 */
export function codeProblems(blocks: readonly Fence[], name: string): string[] {
  // Below node_modules the packages resolve as they do anywhere in the repository, and nothing else picks the files up.
  const folder = join(root, 'node_modules', '.cache', 'readme-code', name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const modules: { lines: string[]; placed: Placed[] }[] = [];
  for (const fence of blocks.filter(({ language }) => language === 'ts' || language === 'typescript')) {
    const last = modules.at(-1);
    const module = fence.continued && last ? last : { lines: [], placed: [] };
    if (module !== last) modules.push(module);
    const code = fence.code.split('\n');
    module.placed.push({ first: module.lines.length, length: code.length, fence });
    module.lines.push(...code);
  }
  for (const [index, { lines }] of modules.entries()) {
    writeFileSync(join(folder, `block-${index}.ts`), [...lines, 'export {};', ''].join('\n'));
  }
  if (modules.length === 0) return [];
  const config = {
    extends: join(root, 'tsconfig.tests.json'),
    // What a page leaves unused is not its fault.
    compilerOptions: {
      noUnusedLocals: false,
      noUnusedParameters: false,
      composite: false,
      incremental: false,
      types: ['node'],
    },
    include: ['*.ts'],
  };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config));
  const { stdout, stderr, error } = spawnSync(
    join(root, 'node_modules', '.bin', 'tsc'),
    ['-p', folder, '--pretty', 'false'],
    {
      cwd: folder,
      encoding: 'utf8',
    },
  );
  if (error) throw error;
  return `${stdout}${stderr}`
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.startsWith(' '))
    .map((line) => {
      const [, index = '', row = '', text = ''] = /^block-(\d+)\.ts\((\d+),\d+\): (.*)$/.exec(line) ?? [];
      const at = Number(row) - 1;
      const placed = modules[Number(index)]?.placed.find(({ first, length }) => at >= first && at < first + length);
      return placed ? `${placed.fence.path}:${placed.fence.line + at - placed.first} ${text}` : line;
    });
}
