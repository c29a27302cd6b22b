/** What a test moves by hand; a virtual clock fits. */
export interface EmulatorTime {
  /** Epoch milliseconds. */
  wall(): number;
}

interface Appointment {
  readonly at: number;
  readonly fire: () => void;
}

/** Waits of the proxy, by the machine's clock or by a time that a test moves. */
export class Timetable {
  readonly #time: EmulatorTime | undefined;
  readonly #waiting = new Set<Appointment>();
  readonly #timers = new Map<Appointment, NodeJS.Timeout>();

  constructor(time: EmulatorTime | undefined) {
    this.#time = time;
  }

  now(): number {
    return this.#time ? this.#time.wall() : Date.now();
  }

  /** Calls `fire` after `ms`. By hand-moved time it is called by `runDue`, once that time is reached. Returns what calls it off. */
  after(ms: number, fire: () => void): () => void {
    const appointment: Appointment = {
      at: this.now() + ms,
      fire: () => {
        this.#forget(appointment);
        fire();
      },
    };
    this.#waiting.add(appointment);
    if (!this.#time) this.#timers.set(appointment, setTimeout(appointment.fire, ms));
    return () => this.#forget(appointment);
  }

  /** Fires what is due by hand-moved time, the earliest first. */
  runDue(): void {
    if (!this.#time) return;
    const now = this.now();
    const due = [...this.#waiting].filter(({ at }) => at <= now).sort((a, b) => a.at - b.at);
    for (const { fire } of due) fire();
  }

  /** Nothing fires any more. */
  close(): void {
    for (const appointment of [...this.#waiting]) this.#forget(appointment);
  }

  #forget(appointment: Appointment): void {
    this.#waiting.delete(appointment);
    clearTimeout(this.#timers.get(appointment));
    this.#timers.delete(appointment);
  }
}
