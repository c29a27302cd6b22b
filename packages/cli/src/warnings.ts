/**
 * Keeps quiet about experimental parts of Node, before anything loads SQLite: on Node 22 that module warns, at every command, that it may
 * still change, and nobody who types a command can do anything about it. Every other warning is shown.
 */
export function hideExperimentalWarnings(): void {
  process.removeAllListeners('warning');
  process.on('warning', (warning) => {
    if (warning.name !== 'ExperimentalWarning') process.stderr.write(`${warning.name}: ${warning.message}\n`);
  });
}
