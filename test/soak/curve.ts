/** The heap after a collection, once so many tasks were done. */
export interface Sample {
  readonly tasks: number;
  readonly heapBytes: number;
}

const HEIGHT = 10;

/** The samples as a curve in text, from zero, so that growth is not made to look larger than it is. */
export function curve(samples: readonly Sample[]): string {
  const most = Math.max(...samples.map(({ heapBytes }) => heapBytes));
  const rows: string[] = [];
  for (let row = HEIGHT; row >= 1; row--) {
    const cells = samples.map(({ heapBytes }) => ((heapBytes / most) * HEIGHT >= row - 0.5 ? '█' : ' ')).join('');
    rows.push(`${((most * row) / HEIGHT / 1e6).toFixed(1).padStart(7)} MB |${cells}`);
  }
  return `${rows.join('\n')}\n           0 tasks ${' '.repeat(Math.max(0, samples.length - 16))}${samples.at(-1)?.tasks ?? 0}`;
}

/** The samples as an SVG of 640 by 240. */
export function svg(samples: readonly Sample[]): string {
  const most = Math.max(...samples.map(({ heapBytes }) => heapBytes));
  const last = samples.at(-1)?.tasks ?? 1;
  const points = samples.map(
    ({ tasks, heapBytes }) =>
      `${(50 + (tasks / last) * 570).toFixed(1)},${(210 - (heapBytes / most) * 180).toFixed(1)}`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 240" font-family="sans-serif" font-size="12">
<rect width="640" height="240" fill="white"/>
<path d="M50 20V210H620" fill="none" stroke="#888"/>
<polyline points="${points.join(' ')}" fill="none" stroke="#06c" stroke-width="2"/>
<text x="50" y="14">heap after collection, ${(most / 1e6).toFixed(1)} MB at most</text>
<text x="620" y="228" text-anchor="end">${last} tasks</text>
<text x="50" y="228">0</text>
</svg>
`;
}
