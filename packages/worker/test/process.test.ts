import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
  readonly out: string;
  readonly err: string;
}

/** Runs the program, sends SIGTERM `times` as soon as its handler runs, and waits for it to exit by itself. */
function terminate(manner: string, times = 1): Promise<Ended> {
  const program = fileURLToPath(new URL('./program.ts', import.meta.url));
  const child = spawn(process.execPath, [
    '--conditions=@leasehold/source',
    '--disable-warning=ExperimentalWarning',
    program,
    manner,
  ]);
  let out = '';
  let err = '';
  child.stderr.on('data', (data) => (err += String(data)));
  child.stdout.on('data', (data) => {
    out += String(data);
    if (out === 'running\n') for (let time = 0; time < times; time++) child.kill('SIGTERM');
  });
  return new Promise((resolve) => child.on('close', (code, signal) => resolve({ code, signal, out, err })));
}

test('on SIGTERM a worker lets its handler end, settles, and the process exits by itself with code 0', async () => {
  const ended = await terminate('ends', 2);
  expect(ended).toEqual({
    code: 0,
    signal: null,
    err: '',
    out: 'running\nhandled\n{"outcome":"drained","leaked":0,"listeners":0}\n',
  });
});

test('a handler that never ends does not keep the process: it exits by itself after its drain, and says that it was forced', async () => {
  const ended = await terminate('deaf');
  expect(ended).toEqual({
    code: 0,
    signal: null,
    err: '',
    out: 'running\n{"outcome":"forced","leaked":1,"listeners":0}\n',
  });
});
