import { tableDefinition, type DynamoDbTableDesign, type KeyPart } from './table-definition.ts';

/**
 * The table as a CloudFormation template in YAML. Deleting the stack keeps the table.
 *
 * @throws LeaseholdError `bad-option`
 * @see https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-resource-dynamodb-table.html
 */
export function cloudFormation(design: DynamoDbTableDesign): string {
  const { create, ttl } = tableDefinition(design);
  const template = {
    AWSTemplateFormatVersion: '2010-09-09',
    Description: 'The table of Leasehold: task ledger and guard store',
    Resources: {
      LeaseholdTable: {
        Type: 'AWS::DynamoDB::Table',
        DeletionPolicy: 'Retain',
        UpdateReplacePolicy: 'Retain',
        Properties: {
          ...create,
          TableName: nameOf(create.TableName),
          ...(ttl !== undefined && { TimeToLiveSpecification: { AttributeName: ttl, Enabled: true } }),
        },
      },
    },
    Outputs: { TableArn: { Value: { 'Fn::GetAtt': 'LeaseholdTable.Arn' } } },
  };
  return `${yaml(template).join('\n')}\n`;
}

/**
 * The table as a Terraform resource of the AWS provider. Terraform will not destroy it.
 *
 * @throws LeaseholdError `bad-option`
 * @see the resource aws_dynamodb_table of the provider hashicorp/aws
 */
export function terraform(design: DynamoDbTableDesign): string {
  const { create, ttl } = tableDefinition(design);
  const keys = (schema: readonly KeyPart[]): Record<string, string | undefined> => ({
    hash_key: schema.find(({ KeyType }) => KeyType === 'HASH')?.AttributeName,
    range_key: schema.find(({ KeyType }) => KeyType === 'RANGE')?.AttributeName,
  });
  const lines = [
    'resource "aws_dynamodb_table" "leasehold" {',
    ...settings({ name: nameOf(create.TableName), billing_mode: create.BillingMode, ...keys(create.KeySchema) }),
    ...create.AttributeDefinitions.flatMap(({ AttributeName, AttributeType }) =>
      block('attribute', settings({ name: AttributeName, type: AttributeType })),
    ),
    ...(create.GlobalSecondaryIndexes ?? []).flatMap(({ IndexName, KeySchema, Projection }) =>
      block(
        'global_secondary_index',
        settings({ name: IndexName, ...keys(KeySchema), projection_type: Projection.ProjectionType }),
      ),
    ),
    ...(ttl === undefined ? [] : block('ttl', settings({ attribute_name: ttl, enabled: true }))),
    ...block('lifecycle', settings({ prevent_destroy: true })),
    '}',
  ];
  return `${lines.join('\n')}\n`;
}

/** A template names the table; an ARN is what comes of it. */
function nameOf(table: string): string {
  return /^arn:.*:table\/(.+)$/.exec(table)?.[1] ?? table;
}

function block(name: string, lines: readonly string[]): readonly string[] {
  return ['', `  ${name} {`, ...lines.map((line) => `  ${line}`), '  }'];
}

/** Settings of one block, their equal signs in line as `terraform fmt` puts them. */
function settings(values: Readonly<Record<string, string | boolean | undefined>>): readonly string[] {
  const given = Object.entries(values).filter(([, value]) => value !== undefined);
  const width = Math.max(...given.map(([name]) => name.length));
  return given.map(([name, value]) => {
    // `${` and `%{` begin templates.
    const text = JSON.stringify(value).replace(/[$%](?=\{)/g, (sign) => sign + sign);
    return `  ${name.padEnd(width)} = ${text}`;
  });
}

type Yaml = string | boolean | readonly Yaml[] | { readonly [key: string]: Yaml };

function yaml(value: Yaml): readonly string[] {
  if (typeof value === 'boolean') return [String(value)];
  // Always in quotes: an attribute may be called `on`.
  if (typeof value === 'string') return [`'${value.replaceAll("'", "''")}'`];
  if (Array.isArray(value)) {
    return value.flatMap((each: Yaml) => yaml(each).map((line, at) => (at === 0 ? `- ${line}` : `  ${line}`)));
  }
  return Object.entries(value).flatMap(([key, each]) => {
    const lines = yaml(each);
    return typeof each === 'object' ? [`${key}:`, ...lines.map((line) => `  ${line}`)] : [`${key}: ${lines[0]}`];
  });
}
