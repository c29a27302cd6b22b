import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';

let directory: string;
let main: ChildProcess;
let exited: Promise<number | null>;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'chaos-test-'));
  const node = ['--disable-warning=ExperimentalWarning', '--conditions=@leasehold/source'];
  const path = fileURLToPath(new URL('./main.ts', import.meta.url));
  const options = ['--tasks', '12', '--workers', '2', '--faults', 'stop', '--directory', directory];
  main = spawn(process.execPath, [...node, path, ...options], { stdio: 'ignore' });
  exited = new Promise((resolve) => main.once('exit', resolve));
  await until(() => children().length === 4);
});

afterEach(() => {
  main.kill('SIGKILL');
  rmSync(directory, { recursive: true, force: true });
});

test('No process outlives a run that is killed, not even one that is stopped', async () => {
  const [stopped] = children();
  if (stopped !== undefined) process.kill(stopped, 'SIGSTOP');
  main.kill('SIGKILL');
  await until(() => children().length === 0);
});

test('Ctrl-C ends every process, removes every file and exits with 130', async () => {
  main.kill('SIGINT');
  expect(await exited).toBe(130);
  expect(children()).toEqual([]);
  expect(readdirSync(directory)).toEqual([]);
});

/** The receiver, the producer and the workers of this run. */
function children(): number[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    const command = commandOf(name);
    return command.includes('-process.ts') && command.includes(directory) ? [Number(name)] : [];
  });
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    // It has just ended.
    return '';
  }
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await pause(20);
}
