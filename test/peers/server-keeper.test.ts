import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';

const KEEPER = join(import.meta.dirname, 'server-keeper.ts');
const SERVER = 'console.log(process.pid); setInterval(() => undefined, 1_000);';
const DEAF = `process.on('SIGTERM', () => undefined); ${SERVER}`;

function keep(code: string): ChildProcess {
  return spawn(process.execPath, [KEEPER, process.execPath, '-e', code], { stdio: ['pipe', 'pipe', 'inherit'] });
}

async function firstNumber(child: ChildProcess): Promise<number> {
  const [chunk] = (await once(child.stdout as NodeJS.ReadableStream, 'data')) as [Buffer];
  return Number(chunk.toString());
}

async function isGone(pid: number): Promise<boolean> {
  for (let tries = 0; tries < 600; tries++) {
    try {
      process.kill(pid, 0);
    } catch {
      // Nobody has that number any more.
      return true;
    }
    await sleep(25);
  }
  return false;
}

test.each([
  ['a server', SERVER],
  ['a server that does not listen to SIGTERM', DEAF],
])('%s is stopped when the one who started it closes its end', async (_, code) => {
  const keeper = keep(code);
  const server = await firstNumber(keeper);
  keeper.stdin?.end();
  expect(await isGone(server)).toBe(true);
});

test('a server is stopped when the one who started it is killed', async () => {
  const code = `
    const { spawn } = require('node:child_process');
    const keeper = spawn(process.execPath, ${JSON.stringify([KEEPER, process.execPath, '-e', SERVER])}, {
      stdio: ['pipe', 'inherit', 'inherit'],
    });
    keeper.unref();
    setInterval(() => undefined, 1_000);`;
  const starter = spawn(process.execPath, ['-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
  const server = await firstNumber(starter);
  starter.kill('SIGKILL');
  expect(await isGone(server)).toBe(true);
});

test('the exit code of a server that ends by itself is passed on, and so is that there is none', async () => {
  expect(await once(keep('process.exit(7)'), 'exit')).toEqual([7, null]);
  const missing = spawn(process.execPath, [KEEPER, 'no-such-server'], { stdio: ['pipe', 'ignore', 'ignore'] });
  expect(await once(missing, 'exit')).toEqual([127, null]);
});
