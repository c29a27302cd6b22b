import Table from 'cli-table3';

const NO_LINES = {
  top: '',
  'top-mid': '',
  'top-left': '',
  'top-right': '',
  bottom: '',
  'bottom-mid': '',
  'bottom-left': '',
  'bottom-right': '',
  left: '',
  'left-mid': '',
  mid: '',
  'mid-mid': '',
  right: '',
  'right-mid': '',
  middle: '  ',
};

/** Rows in columns, without lines or colours: readable in a terminal, a log and a pipe. */
export function plainTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const style = { 'padding-left': 0, 'padding-right': 0, head: [], border: [] };
  const table = new Table({ ...(head.length > 0 && { head: [...head] }), chars: NO_LINES, style });
  table.push(...rows.map((row) => [...row]));
  return table
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n');
}

/** Rows in a box. */
export function boxedTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  widths?: readonly number[],
): string {
  const table = new Table({
    head: [...head],
    style: { head: [], border: [], 'padding-left': 1, 'padding-right': 1, compact: true },
    ...(widths && { colWidths: [...widths] }),
  });
  table.push(...rows.map((row) => [...row]));
  return table.toString();
}
