#!/usr/bin/env node
import { hideExperimentalWarnings } from './warnings.ts';

async function main(): Promise<void> {
  hideExperimentalWarnings();
  const { runCli } = await import('./program.ts');
  // Whoever reads may have seen enough, as "head" does.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1));
  // Not process.exit: what was written to a pipe would be cut off.
  process.exitCode = await runCli(process.argv.slice(2));
  leave();
}

/** A module of the user's that a command loaded may have left a timer or a pool behind, which would keep the process alive. */
function leave(): void {
  setTimeout(() => (process.stdout.writableLength > 0 ? leave() : process.exit()), 500).unref();
}

void main();
