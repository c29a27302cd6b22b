import { readFileSync } from 'node:fs';
import type { Json } from '@leasehold/core';
import type { DoubleAnswer, Made } from '@leasehold/worker/testing';
import { CliFailure } from '../failure.ts';

/** How one kind of request is answered. */
export interface DoubleRule {
  /** The answer; `{id}` and `{key}` in its texts stand for what was made. */
  readonly answer: DoubleAnswer;
  /** The answer of a read when nothing was made under its key. */
  readonly absent?: DoubleAnswer;
  /** Doing it again changes nothing: it is not counted. */
  readonly repeatable: boolean;
  fits(method: string, url: string): boolean;
}

const FIELDS = ['request', 'status', 'headers', 'body', 'absent', 'repeatable'];

/** Reads the file of `--doubles`. */
export function readDoubles(file: string): readonly DoubleRule[] {
  const parsed = readJson(file, '--doubles');
  if (!Array.isArray(parsed))
    throw new CliFailure(2, `--doubles ${file} is not a list: write [{ "request": "POST https://...", "body": ... }].`);
  return (parsed as readonly Json[]).map((entry, index) => rule(entry, `--doubles ${file}, entry ${index + 1}`));
}

/** Reads a file of JSON that an option names. */
export function readJson(file: string, option: string): Json {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    throw new CliFailure(2, `${option} ${file} cannot be read: give the path of a JSON file.`, { cause });
  }
  try {
    return JSON.parse(text) as Json;
  } catch (cause) {
    throw new CliFailure(2, `${option} ${file} is not JSON: ${cause instanceof Error ? cause.message : ''}`, { cause });
  }
}

/** An answer with what was made put in. */
export function filled(answer: DoubleAnswer, made: Pick<Made, 'id' | 'key'> | undefined): DoubleAnswer {
  const text = JSON.stringify(answer);
  const put = (value: string): string => JSON.stringify(value).slice(1, -1);
  return JSON.parse(
    text.replaceAll('{id}', () => put(made?.id ?? '')).replaceAll('{key}', () => put(made?.key ?? '')),
  ) as DoubleAnswer;
}

function rule(entry: Json, where: string): DoubleRule {
  const { request, repeatable = false, absent, ...answer } = record(entry, where);
  const unknown = Object.keys(record(entry, where)).find((field) => !FIELDS.includes(field));
  if (unknown !== undefined)
    throw new CliFailure(2, `${where}: ${unknown} is not a field; there are ${FIELDS.join(', ')}.`);
  const [, method, pattern] = (typeof request === 'string' && /^([A-Z]+) (\S+)$/.exec(request)) || [];
  if (method === undefined || pattern === undefined) {
    throw new CliFailure(
      2,
      `${where}: request has to be a method and an address, such as "POST https://pay.example/charges*", where * stands for anything.`,
    );
  }
  if (typeof repeatable !== 'boolean') throw new CliFailure(2, `${where}: repeatable has to be true or false.`);
  const parts = pattern.split('*').map((part) => part.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`));
  const address = new RegExp(`^${parts.join('.*')}$`);
  return {
    answer: answerOf(answer, where),
    repeatable,
    ...(absent !== undefined && { absent: answerOf(record(absent, `${where}, absent`), `${where}, absent`) }),
    fits: (asked, url) => asked === method && address.test(url),
  };
}

function answerOf(
  { status, headers, body }: { readonly [key: string]: Json | undefined },
  where: string,
): DoubleAnswer {
  if (
    status !== undefined &&
    !(typeof status === 'number' && Number.isInteger(status) && status >= 200 && status <= 599)
  ) {
    throw new CliFailure(2, `${where}: status has to be a number from 200 to 599.`);
  }
  const given = headers === undefined ? {} : record(headers, `${where}, headers`);
  if (Object.values(given).some((value) => typeof value !== 'string'))
    throw new CliFailure(2, `${where}: headers have to be texts.`);
  return {
    ...(status !== undefined && { status }),
    ...(headers !== undefined && { headers: given as Record<string, string> }),
    ...(body !== undefined && { body }),
  };
}

function record(value: Json, where: string): { readonly [key: string]: Json } {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as { readonly [key: string]: Json };
  throw new CliFailure(2, `${where} has to be an object.`);
}
