/**
 * `node server-keeper.ts FILE ARG…`: runs a server for as long as whoever started this keeps the other end of its standard input open. However
 * that process ends, also by SIGKILL, the pipe closes and the server is stopped.
 */
import { spawn } from 'node:child_process';

const GRACE_MS = 3_000;

const [file = '', ...args] = process.argv.slice(2);
const server = spawn(file, args, { stdio: ['ignore', 'inherit', 'inherit'] });

function stop(): void {
  server.kill('SIGTERM');
  setTimeout(() => server.kill('SIGKILL'), GRACE_MS).unref();
}

server.on('error', (error) => {
  process.stderr.write(`${error.message}\n`);
  process.exit(127);
});
server.on('exit', (code) => process.exit(code ?? 1));
process.stdin.on('end', stop).on('error', stop).resume();
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, stop);
