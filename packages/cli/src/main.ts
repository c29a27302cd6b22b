#!/usr/bin/env node
import { runCli } from './program.ts';

async function main(): Promise<void> {
  // Not process.exit: what was written to a pipe would be cut off.
  process.exitCode = await runCli(process.argv.slice(2));
}

void main();
