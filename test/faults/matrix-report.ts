import { FAULT_NAMES } from './fault-kinds.ts';
import { failed, type CellResult, type Matrix } from './matrix.ts';
import { textTable } from './text-table.ts';

const MOST_SHOWN = 10;

/** The matrix for people: method by fault and method by stage as passed/total, its size, and what went wrong. */
export function matrixText(matrix: Matrix): string {
  const { driver, results, planned, size, calls, holes } = matrix;
  const bad = failed(matrix);
  const paths = new Set(calls.map(({ path }) => path)).size;
  const slice = planned.length === size ? '' : ` of ${size}`;
  const lines = [
    `${driver}: passed/total, each driver call of ${paths} task paths (${calls.length} calls) x ${FAULT_NAMES.length} faults`,
    '',
    by(results, FAULT_NAMES, ({ fault }) => fault),
    '',
    by(results, [...new Set(results.map(({ stage }) => stage))], ({ stage }) => stage),
    '',
  ];
  for (const { id, violations } of bad.slice(0, MOST_SHOWN)) {
    lines.push(`${id}: ${violations.join('; ') || 'never reached'}`);
    lines.push(`  again: npm run matrix -- --driver ${driver} --cell ${id}`);
  }
  if (bad.length > MOST_SHOWN) lines.push(`... and ${bad.length - MOST_SHOWN} more`);
  for (const hole of holes) lines.push(`hole: ${hole}`);
  const end = `${planned.length}${slice} cells, ${results.length - bad.length} passed, ${bad.length} failed, ${holes.length} holes`;
  return [...lines, end].join('\n');
}

function by(results: readonly CellResult[], columns: readonly string[], of: (result: CellResult) => string): string {
  const methods = [...new Set(results.map(({ method }) => method))].sort();
  const count = (cells: readonly CellResult[]): string => {
    if (cells.length === 0) return '-';
    const passed = cells.filter(({ reached, violations }) => reached && violations.length === 0).length;
    return `${passed}/${cells.length}`;
  };
  const row = (name: string, cells: readonly CellResult[]): readonly string[] => [
    name,
    ...columns.map((column) => count(cells.filter((cell) => of(cell) === column))),
    count(cells),
  ];
  return textTable(
    [
      ['method', ...columns, 'all'],
      ...methods.map((name) =>
        row(
          name,
          results.filter(({ method }) => method === name),
        ),
      ),
      row('all', results),
    ],
    true,
  );
}
