/** What happened, as lines or, when nobody reads it, as a running hash of them. */
export class Trace {
  readonly lines: string[] = [];
  readonly #keeps: boolean;
  hash = 0x811c9dc5;

  constructor(keeps: boolean) {
    this.#keeps = keeps;
  }

  note(at: number, text: string): void {
    const line = `${at.toFixed(1).padStart(9)}  ${text}`;
    for (let index = 0; index < line.length; index++)
      this.hash = Math.imul(this.hash ^ line.charCodeAt(index), 0x01000193);
    if (this.#keeps) this.lines.push(line);
  }
}

/** The same for two runs that went the same way. */
export function fingerprint(trace: Trace): string {
  return (trace.hash >>> 0).toString(16).padStart(8, '0');
}
