/** Milliseconds on the machine's monotonic clock, the same in every process: nothing that shifts a wall clock moves it. */
export function moment(): number {
  return Number(process.hrtime.bigint() / 10_000n) / 100;
}
