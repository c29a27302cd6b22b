import type { InputSchema } from '@leasehold/worker';
import { isAmount } from './money.ts';

/** What the tool `open_case` takes. */
export interface CaseInput {
  readonly customer: string;
  readonly name: string;
  readonly tier: string;
  readonly subject: string;
  readonly category: string;
  readonly priority: 'low' | 'normal' | 'high' | 'urgent';
  readonly amount?: { readonly value: string; readonly currency: string };
  readonly documents?: readonly string[];
}

/** What the tool `rebuild_index` takes. */
export interface IndexInput {
  readonly collection: string;
  readonly pages: number;
  readonly reason: string;
}

/** One line of a bank statement. */
export type StatementEntry = Readonly<Record<'date' | 'text' | 'amount', string>>;

/** What the tool `import_statement` takes. */
export interface StatementInput {
  readonly statement: string;
  readonly account: string;
  readonly month: string;
  readonly currency: string;
  readonly document: string;
  readonly opening: string;
  readonly closing: string;
  readonly entries: readonly StatementEntry[];
}

/** The second stage of an import: one batch to book, and what comes after it. */
export interface BookingInput {
  readonly statement: string;
  readonly account: string;
  readonly batch: number;
  readonly batches: number;
  readonly entries: readonly StatementEntry[];
  readonly rest: readonly StatementEntry[];
  readonly opening: string;
  readonly closing: string;
}

/** The last stage of an import. */
export interface ReconcileInput {
  readonly statement: string;
  readonly opening: string;
  readonly closing: string;
}

type Check = (value: unknown) => boolean;

const text: Check = (value) => typeof value === 'string' && value !== '' && value.length <= 500;
const whole: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const oneOf =
  (...allowed: readonly string[]): Check =>
  (value) =>
    allowed.includes(value as string);
const matching =
  (pattern: RegExp): Check =>
  (value) =>
    typeof value === 'string' && pattern.test(value);
const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);
const listOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);
const fields =
  (checks: Readonly<Record<string, Check>>): Check =>
  (value) =>
    misfits(checks, value).length === 0;

function misfits(checks: Readonly<Record<string, Check>>, value: unknown): string[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [''];
  const found = value as Readonly<Record<string, unknown>>;
  return Object.keys(checks).filter((name) => checks[name]?.(found[name]) === false);
}

/** A Standard Schema for a flat object. An application would take Zod, Valibot or ArkType. */
function shape<Input>(checks: Readonly<Record<keyof Input & string, Check>>): InputSchema<Input> {
  return {
    '~standard': {
      version: 1,
      vendor: 'helpdesk',
      validate(value) {
        const wrong = misfits(checks, value);
        if (wrong.length === 0) return { value: value as Input };
        return { issues: wrong.map((name) => ({ message: 'does not fit', path: name === '' ? [] : [name] })) };
      },
    },
  };
}

const entry = fields({ date: matching(/^\d{4}-\d{2}-\d{2}$/), text, amount: isAmount });

export const caseInput: InputSchema<CaseInput> = shape<CaseInput>({
  customer: matching(/^C-\d{5}$/),
  name: text,
  tier: text,
  subject: text,
  category: text,
  priority: oneOf('low', 'normal', 'high', 'urgent'),
  amount: optional(fields({ value: isAmount, currency: matching(/^[A-Z]{3}$/) })),
  documents: optional(listOf(text)),
});

export const indexInput: InputSchema<IndexInput> = shape<IndexInput>({ collection: text, pages: whole, reason: text });

export const statementInput: InputSchema<StatementInput> = shape<StatementInput>({
  statement: text,
  account: text,
  month: matching(/^\d{4}-\d{2}$/),
  currency: matching(/^[A-Z]{3}$/),
  document: text,
  opening: isAmount,
  closing: isAmount,
  entries: listOf(entry),
});

export const bookingInput: InputSchema<BookingInput> = shape<BookingInput>({
  statement: text,
  account: text,
  batch: whole,
  batches: whole,
  entries: listOf(entry),
  rest: listOf(entry),
  opening: isAmount,
  closing: isAmount,
});

export const reconcileInput: InputSchema<ReconcileInput> = shape<ReconcileInput>({
  statement: text,
  opening: isAmount,
  closing: isAmount,
});
