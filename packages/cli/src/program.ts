import { readFileSync } from 'node:fs';
import { Command, CommanderError, Option } from 'commander';
import { isLeaseholdError } from '@leasehold/core';
import { addAwsCommands } from './aws/aws-commands.ts';
import type { cancelCommand } from './cancel-command.ts';
import type { demoCommand } from './demo-command.ts';
import type { contractCommand } from './contract/contract-command.ts';
import { profileOption } from './demo-options.ts';
import { CliFailure, EXIT } from './failure.ts';
import type { inspectCommand } from './inspect-command.ts';
import type { listCommand } from './list-command.ts';
import { database, ledger, queue } from './store-options.ts';
import { limitOption, stageOption, stateOption } from './list-options.ts';
import type { approveCommand } from './operator/answer-command.ts';
import type { redriveCommand, sweepCommand } from './operator/sweep-command.ts';
import type { watchCommand } from './operator/watch-command.ts';
import type { RehearseOptions } from './rehearse/rehearse-command.ts';
import { plain } from './wording.ts';

const EXIT_CODES = `
Exit codes: 0 done, 1 refused, not found or a promise not kept, 2 the command line cannot be used.`;

/**
 * Runs the command line and resolves with its exit code: 0 done; 1 refused, not found, or (`demo`) a promise was not kept; 2 the command
 * line cannot be used. Writes to stdout and stderr. Never rejects.
 */
export async function runCli(args: readonly string[]): Promise<number> {
  let exitCode: number = EXIT.ok;
  const program = commands((code) => void (exitCode = code));
  try {
    await program.parseAsync([...args], { from: 'user' });
    return exitCode;
  } catch (error) {
    // Commander has written its message already; help and version come here too.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    process.stderr.write(`error: ${messageOf(error)}\n`);
    return error instanceof CliFailure ? error.exitCode : codeOf(error);
  }
}

function commands(exit: (code: number) => void): Command {
  const program = new Command('leasehold')
    .description('Looks at tasks under lease, cancels them, and shows the whole thing at work.')
    .version(version())
    .exitOverride()
    .addHelpText('after', EXIT_CODES);
  const json = (what: string): Option => new Option('--json', what);

  program
    .command('demo')
    .description('Runs 60 tool calls of agents over three worker processes, with faults on purpose.')
    .addOption(json('print one line of JSON at the end, and nothing else'))
    .addOption(profileOption())
    .option('--endpoint <url>', 'with aws: a server for both services, instead of embedded ones')
    .option('--sqs-endpoint <url>', 'with aws: the server for SQS')
    .option('--dynamodb-endpoint <url>', 'with aws: the server for DynamoDB')
    .option('--region <region>', 'with aws and an endpoint: the region (default: as the AWS SDK finds it)')
    .option('--keep [dir]', 'leave the database in this folder (default: .leasehold)')
    .action(async (options: Parameters<typeof demoCommand>[0]) =>
      exit(await (await import('./demo-command.ts')).demoCommand(options)),
    );

  program
    .command('list')
    .description('Lists tasks, the one changed last first.')
    .addOption(database())
    .addOption(ledger())
    .addOption(queue())
    .addOption(stateOption())
    .option('--type <type...>', 'only tasks of these types')
    .option('--run <id>', 'only tasks of this agent run')
    .addOption(stageOption())
    .option('--error <class>', 'only tasks whose last error is of this class')
    .addOption(new Option('--lapsed', 'only running tasks whose lease is over').conflicts('state'))
    .addOption(limitOption())
    .addOption(json('print an array, without content'))
    .action(async (options: Parameters<typeof listCommand>[0]) =>
      exit(await (await import('./list-command.ts')).listCommand(options)),
    );

  program
    .command('inspect')
    .description('Shows one task: what was claimed and when, its effects, its receipt, its last error.')
    .argument('<task>', 'the id, or the beginning of it')
    .addOption(database())
    .addOption(ledger())
    .addOption(json('print the record as it is stored'))
    .action(async (task: string, options: Parameters<typeof inspectCommand>[1]) =>
      exit(await (await import('./inspect-command.ts')).inspectCommand(task, options)),
    );

  program
    .command('cancel')
    .description('Cancels a task, or all recorded tasks of an agent run.')
    .argument('[task]', 'the id, or the beginning of it')
    .addOption(database())
    .addOption(ledger())
    .option('--run <id>', 'cancel every recorded task of this agent run that has not ended')
    .option('--unclaimed', 'the task was never claimed, so nothing is known of it yet: take the full id as it is')
    .addOption(json('print an array of outcomes'))
    .action(async (task: string | undefined, options: Parameters<typeof cancelCommand>[1]) =>
      exit(await (await import('./cancel-command.ts')).cancelCommand(task, options)),
    );

  for (const [name, approve] of [
    ['approve', true],
    ['reject', false],
  ] as const) {
    program
      .command(name)
      .description(
        approve
          ? 'Answers yes for a task that waits for a person: it runs again.'
          : 'Answers no: the task is dead-lettered as rejected; needs no queue, since nothing is sent.',
      )
      .argument('<task>', 'the id, or the beginning of it')
      .addOption(database())
      .addOption(ledger())
      .addOption(queue())
      .option('--reason <text>', 'what to tell the task')
      .addOption(json('print the outcome'))
      .action(async (task: string, options: Parameters<typeof approveCommand>[1]) => {
        const { approveCommand: yes, rejectCommand: no } = await import('./operator/answer-command.ts');
        exit(await (approve ? yes : no)(task, options));
      });
  }

  program
    .command('watch')
    .description('Follows one task until it has ended; 0 when it settled, 1 when it ended otherwise.')
    .argument('<task>', 'the id, or the beginning of it')
    .addOption(database())
    .addOption(ledger())
    .addOption(json('print one line of JSON a change'))
    .action(async (task: string, options: Parameters<typeof watchCommand>[1]) =>
      exit(await (await import('./operator/watch-command.ts')).watchCommand(task, options)),
    );

  program
    .command('sweep')
    .description('Reports lapsed tasks and dead letters, and closes tasks whose message will not come back.')
    .addOption(database())
    .addOption(ledger())
    .addOption(queue())
    .option('--dry-run', 'change nothing')
    .addOption(json('print the report'))
    .action(async (options: Parameters<typeof sweepCommand>[0]) =>
      exit(await (await import('./operator/sweep-command.ts')).sweepCommand(options)),
    );

  program
    .command('redrive')
    .description(
      'Lets dead-lettered tasks run again: reopens them, then moves their messages back, or sends those that are parked.',
    )
    .argument('[task]', 'the id, or the beginning of it; or that of a message that is no task')
    .addOption(database())
    .addOption(ledger())
    .addOption(queue())
    .option('--all', 'every dead letter of the queue')
    .addOption(json('print the report'))
    .action(async (task: string | undefined, options: Parameters<typeof redriveCommand>[1]) =>
      exit(await (await import('./operator/sweep-command.ts')).redriveCommand(task, options)),
    );

  program
    .command('rehearse')
    .description(
      'Kills, cuts off and pauses a handler of yours at each of its steps, takes over, and shows what was done twice.',
    )
    .requiredOption('--handlers <file>', 'the module that exports your tasks (what defineTask answers)')
    .option('--task <type>', 'which of them (default: the only one)')
    .option('--input <file>', 'its input, as JSON (default: {})')
    .option('--doubles <file>', 'how requests are answered: [{ "request": "GET https://...*", "body": ... }]')
    .option('--live', 'let every call of every run really go out, instead of answering it from memory')
    .addOption(json('print the report as JSON'))
    .action(async (options: RehearseOptions) =>
      exit(await (await import('./rehearse/rehearse-command.ts')).rehearseCommand(options)),
    );

  program
    .command('contract')
    .description('Runs the conformance cases against a driver of yours, or against broken drivers to test the cases.')
    .option('--driver <file>', 'a module that exports harnesses: see the README of @leasehold/contract')
    .option('--mutants', 'test the suite itself: every broken driver has to be caught by the case that names its fault')
    .addOption(json('print one line of JSON'))
    .action(async (options: Parameters<typeof contractCommand>[0]) =>
      exit(await (await import('./contract/contract-command.ts')).contractCommand(options)),
    );

  const aws = addAwsCommands(program, exit);

  for (const command of [...program.commands, ...aws.commands]) command.addHelpText('after', EXIT_CODES);
  return program;
}

function version(): string {
  const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string };
  return manifest.version;
}

function messageOf(error: unknown): string {
  return plain(error instanceof Error ? error.message : String(error));
}

function codeOf(error: unknown): number {
  return isLeaseholdError(error) && error.code === 'bad-option' ? EXIT.usage : EXIT.failed;
}
