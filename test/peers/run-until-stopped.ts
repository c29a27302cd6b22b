/**
 * Runs a program whose servers have to be stopped, whatever ends it: a signal aborts it, and it cleans up by itself. What it fails with is said on
 * stderr; the exit code is its own, 1 when it failed, 130 when it was stopped.
 */
export function runUntilStopped(main: (signal: AbortSignal) => Promise<number>): void {
  const stopped = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => stopped.abort(new Error(name)));
  main(stopped.signal).then(
    (code) => {
      process.exitCode = stopped.signal.aborted ? 130 : code;
    },
    (error: unknown) => {
      process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
      process.exitCode = stopped.signal.aborted ? 130 : 1;
    },
  );
}
