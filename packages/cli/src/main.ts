#!/usr/bin/env node
import { nodeTrouble } from './node-version.ts';
import { hideExperimentalWarnings } from './warnings.ts';

async function main(): Promise<void> {
  const trouble = nodeTrouble(process.version);
  if (trouble !== undefined) {
    process.stderr.write(`error: ${trouble}\n`);
    process.exitCode = 2;
    return;
  }
  hideExperimentalWarnings();
  const { runCli } = await import('./program.ts');
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // Whoever reads may have seen enough, as "head" does.
    if (error.code === 'EPIPE') process.exit(0);
    process.stderr.write(`error: stdout cannot be written (${error.message}); what was printed is not whole.\n`);
    process.exit(1);
  });
  // Not process.exit: what was written to a pipe would be cut off.
  process.exitCode = await runCli(process.argv.slice(2));
  leave();
}

/** A module of the user's that a command loaded may have left a timer or a pool behind, which would keep the process alive. */
function leave(): void {
  setTimeout(() => (process.stdout.writableLength > 0 ? leave() : process.exit()), 500).unref();
}

void main();
