import { read } from '../repo/tree.ts';

/** A table of the page: the cells of each row by the heading of their column. */
export type Table = readonly Readonly<Record<string, string>>[];

/** A block of JSON on the page, and the schema its info string names. */
export interface Example {
  readonly schema: string;
  readonly json: unknown;
}

const text = read('docs/protocol.md');

/** The tables between a heading and the next one, in order. */
export function tables(heading: string): readonly Table[] {
  const [, section] = new RegExp(`^#{2,3} ${heading}\\n([^]*?)(?=^#{2,3} |$(?![^]))`, 'm').exec(text) ?? [];
  if (section === undefined) throw new Error(`the page has no heading ${heading}`);
  return [...section.matchAll(/^\|.*\|\n\|[-| ]+\|\n(?:\|.*\|\n?)*/gm)].map(([found]) => {
    const [head = [], , ...rows] = found.trim().split('\n').map(cells);
    return rows.map((row) => Object.fromEntries(head.map((name, index) => [name, row[index] ?? ''])));
  });
}

function cells(line: string): string[] {
  return line
    .slice(1, -1)
    .split('|')
    .map((cell) => cell.trim());
}

/** The first table below a heading. */
export function table(heading: string): Table {
  const [first] = tables(heading);
  if (!first) throw new Error(`there is no table below ${heading}`);
  return first;
}

/** What stands between backticks in a cell. */
export function codes(cell: string | undefined): string[] {
  return [...(cell ?? '').matchAll(/`([^`]+)`/g)].map(([, code = '']) => code);
}

/** The code of the first column of the first table below a heading. */
export function listed(heading: string): string[] {
  return table(heading).flatMap((row) => codes(Object.values(row)[0]));
}

/** Every block of JSON. One that names no schema is an error. */
export function examples(): readonly Example[] {
  return [...text.matchAll(/^```(json\S*)(.*)\n([^]*?)^```$/gm)].map(([, , info = '', json = '']) => {
    const schema = info.trim();
    if (schema === '') throw new Error(`a block of JSON names no schema: ${json.slice(0, 60)}`);
    return { schema, json: JSON.parse(json) as unknown };
  });
}
