import { parseArgs, type ParseArgsConfig } from 'node:util';

type Known = NonNullable<ParseArgsConfig['options']>;

/** The options of a command of this repository. What it does not know ends the process with 2, the reason and the usage on stderr; `--help` with 0. */
export function commandOptions<const Options extends Known>(
  usage: string,
  options: Options,
): ReturnType<typeof parseArgs<{ options: Options }>>['values'] {
  if (process.argv.slice(2).includes('--help')) {
    process.stdout.write(usage);
    process.exit(0);
  }
  try {
    return parseArgs({ options }).values;
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n\n${usage}`);
    process.exit(2);
  }
}
