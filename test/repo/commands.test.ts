import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '..', '..');
const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  scripts: Readonly<Record<string, string>>;
};
/** Those that take options of their own; vitest reads the others of `test:peers` and `test:docker`. */
const COMMANDS = ['model', 'simulate', 'matrix', 'unpleasant', 'fuzz', 'soak', 'chaos', 'bench'];

test.each(COMMANDS)('npm run %s says what is wrong with an option, and how it is used', (name) => {
  const [, ...words] = (scripts[name] ?? '').split(' ');
  const run = (...options: string[]) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [...words, ...options], {
      cwd: ROOT,
      encoding: 'utf8',
    });
    return { status, stdout, stderr };
  };
  const refused = run('--bogus');
  expect(refused).toMatchObject({ status: 2, stdout: '' });
  expect(refused.stderr).toMatch(/^Unknown option '--bogus'/);
  expect(refused.stderr).toContain(`npm run ${name} -- `);
  expect(refused.stderr).not.toMatch(/^ +at /m);
  const help = run('--help');
  expect(help).toMatchObject({ status: 0, stderr: '' });
  expect(help.stdout).toContain(`npm run ${name} -- `);
});
