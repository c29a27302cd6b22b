import type { InputSchema } from '@leasehold/worker';
import { expect, test } from 'vitest';
import { caseInput, indexInput, statementInput, type StatementInput } from '../src/inputs.ts';
import { sumOf, toCents } from '../src/money.ts';
import { HIT } from '../src/scenario.ts';
import { readToolCalls, taskOf } from '../src/tool-calls.ts';

const calls = readToolCalls();
const schemas: Readonly<Record<string, InputSchema<unknown>>> = {
  open_case: caseInput,
  rebuild_index: indexInput,
  import_statement: statementInput,
};

test('there are sixty calls of three tools, of several runs, each with an idempotency key of its own', () => {
  expect(calls).toHaveLength(60);
  expect(new Set(calls.map(({ tool }) => tool))).toEqual(new Set(Object.keys(schemas)));
  expect(new Set(calls.map(({ run }) => run)).size).toBe(5);
  expect(new Set(calls.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(60);
  expect(new Set(calls.map((call) => taskOf(call).taskId)).size).toBe(60);
});

test('one call has arguments that its tool cannot take, and one statement was read wrongly', async () => {
  const verdicts = await Promise.all(
    calls.map(async (call) => (await schemas[call.tool]?.['~standard'].validate(call.arguments))?.issues),
  );
  expect(verdicts.flatMap((issues) => issues?.map(({ path }) => path?.[0]) ?? [])).toEqual([
    'customer',
    'priority',
    'amount',
  ]);
  const statements = calls
    .filter(({ tool }) => tool === 'import_statement')
    .map((call) => call.arguments as unknown as StatementInput);
  const unbalanced = statements.filter(
    ({ opening, closing, entries }) =>
      toCents(opening) + sumOf(entries.map(({ amount }) => amount)) !== toCents(closing),
  );
  expect(unbalanced.map(({ statement }) => statement)).toEqual(['5030-2025-03']);
});

test('every fault has a call to hit', () => {
  const keys = calls.map(({ idempotencyKey }) => idempotencyKey);
  expect(Object.values(HIT).filter((key) => !keys.includes(key))).toEqual([]);
});

test('amounts add up to the cent', () => {
  expect(toCents('-0.05')).toBe(-5);
  expect(toCents('48300')).toBe(4_830_000);
  expect(sumOf(['0.10', '0.20', '-0.30'])).toBe(0);
});
