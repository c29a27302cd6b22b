import { badOption } from './errors.ts';

/** What each kind of part can do that no other kind can. */
const KINDS = {
  'a broker driver': ['receive', 'send', 'complete'],
  'a ledger driver': ['put', 'get', 'list'],
  'a guard store': ['begin', 'finish', 'look'],
} as const;

/**
 * Refuses a part that is missing, or of another kind than is needed: two that were swapped would be noticed only when the first task is there.
 *
 * @throws LeaseholdError `bad-option` naming the field, what is needed and what it seems to be.
 */
export function checkPart(field: string, part: unknown, kind: keyof typeof KINDS): void {
  const is = (one: keyof typeof KINDS): boolean => {
    const methods = part as Readonly<Record<string, unknown>>;
    return KINDS[one].every((method) => typeof methods[method] === 'function');
  };
  const given = typeof part === 'object' && part !== null;
  if (given && is(kind)) return;
  const found = given ? (Object.keys(KINDS) as (keyof typeof KINDS)[]).find(is) : undefined;
  throw badOption(field, part, `pass ${kind}${found ? `; this is ${found}` : ''}.`);
}
