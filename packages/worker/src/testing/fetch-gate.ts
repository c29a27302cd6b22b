import { running, type Process } from './process.ts';

type Fetch = typeof globalThis.fetch;

const gates = new WeakMap<Process, Fetch>();
let users = 0;
let real: Fetch = globalThis.fetch;

/** Code of a process that has a gate goes through it, everything else to the real one: several runs may be under way at once. */
const dispatch: Fetch = (input, init) => {
  const process = running.getStore();
  const gate = process && gates.get(process);
  return gate ? gate(input, init) : real(input, init);
};

/** Replaces the global `fetch` until the returned function is called. */
export function takeFetch(): () => void {
  if (users++ === 0) {
    real = globalThis.fetch;
    globalThis.fetch = dispatch;
  }
  let taken = true;
  return () => {
    if (!taken) return;
    taken = false;
    if (--users === 0 && globalThis.fetch === dispatch) globalThis.fetch = real;
  };
}

/** What `fetch` was before it was taken. */
export function realFetch(...args: Parameters<Fetch>): ReturnType<Fetch> {
  return real(...args);
}

/** Sends the calls of a process through `gate`. */
export function gateFetch(process: Process, gate: Fetch): void {
  gates.set(process, gate);
}
