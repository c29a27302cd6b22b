export { runDemo, type DemoOptions, type DemoReport } from './demo.ts';
export type { Tally, Violation } from './audit.ts';
export type { ProfileName } from './profiles.ts';
export type { DemoProgress, HeldTask } from './progress.ts';
