/** The oldest Node that has all the command uses, SQLite first of all: `[major, minor]`. */
const OLDEST = [22, 18] as const;

/** What to say on a Node that is too old, in which loading the rest would fail with something that helps nobody. */
export function nodeTrouble(version: string): string | undefined {
  const [major = 0, minor = 0] = version.replace(/^v/, '').split('.').map(Number);
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return undefined;
  return `leasehold needs Node ${OLDEST.join('.')} or newer; this is ${version}.`;
}
