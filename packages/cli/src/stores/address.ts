import { CliFailure } from '../failure.ts';

/** Where a store is, as it is written on a command line or in the environment: `<kind>:<place>?<option>=<value>&...`. */
export interface Address<Kind extends string = string> {
  readonly kind: Kind;
  /** What the kind makes of it: a file, a table, the URL of a queue. */
  readonly place: string;
  readonly options: Readonly<Record<string, string>>;
  /** As it was said, for messages: `--ledger dynamodb:tasks`. */
  readonly said: string;
}

/** How a kind of store is written. */
export interface AddressForm {
  /** For messages. */
  readonly form: string;
  /** The names of its options. */
  readonly options: readonly string[];
}

/**
 * Reads an address of one of `kinds`.
 *
 * @throws CliFailure when it cannot be read, naming what can be written instead.
 */
export function parseAddress<Kind extends string>(
  from: string,
  text: string,
  kinds: Readonly<Record<Kind, AddressForm>>,
): Address<Kind> {
  const said = `${from} ${text}`;
  const forms = Object.values<AddressForm>(kinds).map(({ form }) => form);
  const { kind = '', rest = '' } = /^(?<kind>[a-z]+):(?<rest>.*)$/s.exec(text)?.groups ?? {};
  if (!isKind(kind, kinds)) throw new CliFailure(2, `${said} names no kind of store: write ${forms.join(' or ')}.`);
  const mark = rest.indexOf('?');
  const place = mark < 0 ? rest : rest.slice(0, mark);
  const { form, options: known } = kinds[kind];
  if (place === '') throw new CliFailure(2, `${said} names no place: write ${form}.`);
  const options: Record<string, string> = {};
  for (const [name, value] of new URLSearchParams(mark < 0 ? '' : rest.slice(mark + 1))) {
    if (known.length === 0) throw new CliFailure(2, `${said}: ${name} is not known, it takes no options: ${form}.`);
    if (!known.includes(name) || value === '')
      throw new CliFailure(
        2,
        `${said}: ${name} is not an option with a value; there are ${known.join(', ')}: ${form}.`,
      );
    options[name] = value;
  }
  return { kind, place, options, said };
}

function isKind<Kind extends string>(kind: string, kinds: Readonly<Record<Kind, unknown>>): kind is Kind {
  return Object.hasOwn(kinds, kind);
}
