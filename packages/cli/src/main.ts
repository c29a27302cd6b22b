#!/usr/bin/env node
import { hideExperimentalWarnings } from './warnings.ts';

async function main(): Promise<void> {
  hideExperimentalWarnings();
  const { runCli } = await import('./program.ts');
  // Whoever reads may have seen enough, as "head" does.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1));
  // Not process.exit: what was written to a pipe would be cut off.
  process.exitCode = await runCli(process.argv.slice(2));
}

void main();
