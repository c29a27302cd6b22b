import { spawn } from 'node:child_process';

/** What a command came to. */
export interface Ran {
  /** Absent when it could not be started, or was stopped. */
  readonly code?: number;
  readonly output: string;
}

/** Runs a command to its end and gives what it wrote; never rejects. */
export function run(file: string, args: readonly string[], signal: AbortSignal): Promise<Ran> {
  return new Promise((resolve) => {
    let output = '';
    const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'], signal });
    const keep = (chunk: Buffer): void => {
      output += chunk.toString();
    };
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    child.on('error', (error) => resolve({ output: output + error.message }));
    child.on('close', (code) => resolve({ ...(code !== null && { code }), output }));
  });
}

/** The end of what a command wrote, for an error message. */
export function tail({ code, output }: Ran): string {
  const lines = output.trim().split('\n').slice(-8).join('\n');
  return `(exit code ${code ?? 'none'})\n${lines}`;
}
