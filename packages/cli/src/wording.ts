/** Text from a record for a terminal: one line, without control characters, which could say something else than what is stored. */
export function plain(text: string): string {
  // eslint-disable-next-line no-control-regex -- they are what is looked for
  return text.replaceAll(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]+/g, ' ');
}

/** A task id as people read it: hashes cut to what tells them apart. `inspect` and `cancel` take it in this form. */
export function shortId(taskId: string): string {
  return plain(taskId).replaceAll(/\b[0-9a-f]{64}\b/g, (hash) => hash.slice(0, 12));
}

/** So many of something: `1 failure`, `2 failures`. */
export function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`;
}

/** A length of time in at most two units. */
export function spell(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const units = [
    ['d', 86_400_000],
    ['h', 3_600_000],
    ['min', 60_000],
    ['s', 1_000],
  ] as const;
  const first = units.findIndex(([, size]) => ms >= size);
  let rest = ms;
  const parts = units.slice(first, first + 2).map(([unit, size]) => {
    const count = Math.floor(rest / size);
    rest -= count * size;
    return count > 0 ? `${count} ${unit}` : '';
  });
  return parts.filter((part) => part !== '').join(' ');
}

/** A moment, to the millisecond, in UTC. */
export function moment(epochMs: number): string {
  return new Date(epochMs).toISOString();
}
