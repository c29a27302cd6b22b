import { badOption, LeaseholdError } from './errors.ts';

/** Every option of a type, by name; the compiler keeps the list complete. */
export type OptionNames<Options> = Readonly<Record<keyof Options & string, true>>;

/**
 * Refuses an option that does not exist: misspelt, it would be left at its default without a word. A value of `undefined` asks for nothing and passes.
 * `at` goes before the names, such as `limits.`.
 *
 * @throws LeaseholdError `bad-option` naming the option and those there are.
 */
export function checkNames(options: object, names: Readonly<Record<string, true>>, at = ''): void {
  if (typeof options !== 'object' || options === null)
    throw badOption(at.replace(/\.$/, '') || 'options', options, 'pass an object with the options.');
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || Object.hasOwn(names, name)) continue;
    const field = `${at}${name}`;
    throw new LeaseholdError('bad-option', `${field} is no option; there are ${Object.keys(names).join(', ')}.`, {
      field,
    });
  }
}
