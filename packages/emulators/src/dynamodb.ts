import { startEmulator, type Emulator, type EmulatorOptions } from './emulator.ts';

/**
 * Starts an empty DynamoDB server. Tables are there as soon as they are created.
 *
 * @throws EmulatorError when the port is taken or the server does not start
 * @see https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/Welcome.html
 */
export async function startDynamoDb(options: EmulatorOptions = {}): Promise<Emulator> {
  const { emulator } = await startEmulator('dynamodb', options);
  return emulator;
}
