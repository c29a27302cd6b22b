import type { GuardStore } from '@leasehold/core';
import type { DynamoDbOptions } from './options.ts';
export type DynamoDbGuardOptions = DynamoDbOptions;
export function dynamoDbGuard(_options: DynamoDbGuardOptions): GuardStore { throw new Error('x'); }
