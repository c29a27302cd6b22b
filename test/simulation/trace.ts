/** How much of a schedule is kept: nothing, a running hash of its lines, or the lines too. */
export type Keeps = 'nothing' | 'print' | 'lines';

/** What happened, line by line. */
export class Trace {
  readonly lines: string[] = [];
  readonly #keeps: Keeps;
  #hash = 0x811c9dc5;

  constructor(keeps: Keeps) {
    this.#keeps = keeps;
  }

  /** Notes what `text` says, which is asked only if anything is kept: most schedules are run for their verdict alone. */
  note(at: number, text: () => string): void {
    if (this.#keeps === 'nothing') return;
    const line = `${at.toFixed(1).padStart(9)}  ${text()}`;
    for (let index = 0; index < line.length; index++)
      this.#hash = Math.imul(this.#hash ^ line.charCodeAt(index), 0x01000193);
    if (this.#keeps === 'lines') this.lines.push(line);
  }

  /** The same for two runs that went the same way. Nothing when nothing is kept. */
  get print(): string | undefined {
    return this.#keeps === 'nothing' ? undefined : (this.#hash >>> 0).toString(16).padStart(8, '0');
  }
}
