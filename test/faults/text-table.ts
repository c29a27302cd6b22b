/** Rows in columns as wide as their widest entry; all but the first column aligned to the right if asked. */
export function textTable(rows: readonly (readonly string[])[], numbers = false): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((text, column) => {
          const width = widths[column] ?? 0;
          return numbers && column > 0 ? text.padStart(width) : text.padEnd(width);
        })
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
