import { Option, type Command } from 'commander';
import type { createTableCommand } from './create-table-command.ts';
import { FORMATS, ROLES } from './choices.ts';
import type { policyCommand } from './policy-command.ts';
import type { tableCommand } from './table-command.ts';

const DEFAULT_TABLE = 'leasehold';

/** Adds `leasehold aws ...`: what an account needs before workers can run on it. */
export function addAwsCommands(program: Command, exit: (code: number) => void): Command {
  const aws = program.command('aws').description('Makes or describes what AWS has to have: the table, the policies.');
  const table = (): Option => new Option('--table <name>', 'its name').default(DEFAULT_TABLE);

  const create = aws
    .command('create-table')
    .description('Makes the DynamoDB table and turns its TTL on; one that is there is checked and left as it is.')
    .requiredOption('--table <name>', 'its name')
    .option('--region <region>', 'default: as the AWS SDK finds it')
    .option('--endpoint <url>', "another server than the region's");
  design(create)
    .addOption(new Option('--json', 'print what was done as one line of JSON'))
    .action(async (options: Parameters<typeof createTableCommand>[0]) =>
      exit(await (await import('./create-table-command.ts')).createTableCommand(options)),
    );

  const text = aws
    .command('table')
    .description('Prints the same table as text, for whoever makes tables by CloudFormation or Terraform.')
    .addOption(new Option('--format <format>', 'of the text').choices(FORMATS).makeOptionMandatory())
    .addOption(table());
  design(text).action(async (options: Parameters<typeof tableCommand>[0]) =>
    exit(await (await import('./table-command.ts')).tableCommand(options)),
  );

  const policy = aws
    .command('policy')
    .description('Prints an IAM policy as JSON: what a role needs, and nothing more.')
    .addOption(new Option('--role <role>', 'whose').choices(ROLES).makeOptionMandatory())
    .addOption(table())
    .option('--queue <url>', 'the URL of the SQS queue; without it the policy is about the table alone')
    .option('--dead-letter-queue <url>', 'the URL of its dead-letter queue')
    .option('--region <region>', 'of the table (default: that of the queue, else any)')
    .option('--account <number>', 'of the table (default: that of the queue, else any)')
    .option('--partition <name>', 'aws, aws-cn or aws-us-gov (default: that of the queue, else aws)')
    .option('--may-cancel', 'for a producer: it may also cancel its tasks');
  design(policy).action(async (options: Parameters<typeof policyCommand>[0]) =>
    exit(await (await import('./policy-command.ts')).policyCommand(options)),
  );
  return aws;
}

/** How the table looks, where it is not as it is by default. */
function design(command: Command): Command {
  return command
    .option('--prefix <text>', 'before every key, in a table with other things')
    .option('--partition-key <name>', 'its attribute (default: pk)')
    .option('--sort-key <name>', 'its attribute, in a table that has one')
    .option('--ttl <name>', 'the attribute of its TTL (default: ttl)')
    .option('--no-ttl', 'no TTL: ended tasks stay')
    .option('--index <name>', 'the index for "list" (default: leasehold-open)')
    .option('--index-partition <name>', 'its partition key (default: lane)')
    .option('--index-sort <name>', 'its sort key (default: lane_at)')
    .option('--no-index', 'no index: "list" and "sweep" read the whole table');
}
