import { goalText, short, type Figure } from './figures.ts';

const value = (figure: Figure, of: number | undefined): string =>
  of === undefined ? '' : `${short(of)} ${figure.unit}`;

/** The figures as text in columns. */
export function table(figures: readonly Figure[]): string {
  const head = ['row', 'ours', 'peer', 'ratio', 'goal', 'met', 'rounds', 'client CPU a task'];
  const rows = figures.map((figure) => [
    figure.id,
    value(figure, figure.ours),
    value(figure, figure.peer),
    short(figure.ratio),
    goalText(figure.goal),
    figure.met ? 'yes' : 'NO',
    figure.spread ? `${short(figure.spread[0])}-${short(figure.spread[1])}` : '',
    figure.cpuMicros ? `${short(figure.cpuMicros.ours)} / ${short(figure.cpuMicros.peer)} µs` : '',
  ]);
  const widths = head.map((name, column) => Math.max(name.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line), ''].join('\n');
}
