export { createTable, type CreateTableOptions, type CreateTableReport } from './create-table.ts';
export { dynamoDbGuard, type DynamoDbGuardOptions } from './guard.ts';
export { iamPolicy, type IamPolicy, type IamPolicyOptions, type IamRole, type IamStatement } from './iam-policy.ts';
export { cloudFormation, terraform } from './infrastructure.ts';
export { dynamoDbLedger, type DynamoDbLedger, type DynamoDbLedgerOptions } from './ledger.ts';
export type {
  DynamoDbConnection,
  DynamoDbIndex,
  DynamoDbOptions,
  DynamoDbSender,
  DynamoDbTableOptions,
} from './options.ts';
export { tableDefinition, type DynamoDbTableDesign, type KeyPart, type TableDefinition } from './table-definition.ts';
