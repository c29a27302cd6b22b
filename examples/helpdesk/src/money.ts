/** An amount as people and banks write it: digits, a point, two digits. */
const AMOUNT = /^-?\d{1,12}(?:\.\d{2})?$/;

/** True for text such as `1249.00` or `-96.50`. */
export function isAmount(value: unknown): value is string {
  return typeof value === 'string' && AMOUNT.test(value);
}

/** The amount in cents, which add up exactly. */
export function toCents(amount: string): number {
  const [whole = '0', part = '00'] = amount.replace('-', '').split('.');
  const cents = Number(whole) * 100 + Number(part);
  return amount.startsWith('-') ? -cents : cents;
}

/** The sum of amounts, in cents. */
export function sumOf(amounts: readonly string[]): number {
  return amounts.reduce((sum, amount) => sum + toCents(amount), 0);
}
