import { join } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { read } from '../repo/tree.ts';

/** The parts of a published schema that the tests look into. */
export interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly additionalProperties?: Schema;
  readonly $defs?: Readonly<Record<string, Schema>>;
}

const NAMES = ['record', 'envelope', 'headers', 'look', 'problem'] as const;

// Strict, so that a keyword written wrong is an error; but an `if` need not repeat the type it is about.
const ajv = new Ajv2020({ allErrors: true, strict: true, strictTypes: false, strictRequired: false });
for (const name of NAMES) ajv.addSchema(schema(name), `${name}.schema.json`);

/** A published schema, as it is on disk. */
export function schema(name: (typeof NAMES)[number]): Schema & { readonly $id: string } {
  return JSON.parse(read(join('docs', 'schemas', `${name}.schema.json`))) as Schema & { readonly $id: string };
}

/** Follows a reference within the schema. */
export function resolve(root: Schema, part: Schema | undefined): Schema {
  const name = /^#\/\$defs\/(\w+)$/.exec(part?.$ref ?? '')?.[1];
  const found = name === undefined ? part : root.$defs?.[name];
  if (!found) throw new Error(`nothing at ${part?.$ref ?? 'an absent part'}`);
  return found;
}

/** What is wrong with a value by a schema such as `look.schema.json#/$defs/ask`; nothing when it is valid. */
export function complaints(reference: string, value: unknown): readonly string[] {
  const validate = ajv.getSchema(reference);
  if (!validate) throw new Error(`there is no schema ${reference}`);
  if (validate(value) === true) return [];
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath || '/'} ${message ?? 'is wrong'}`);
}
