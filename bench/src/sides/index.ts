import type { Side, SideOptions } from '../side.ts';

/** Every side by name; each loads what it needs and nothing else. */
export const SIDES: Readonly<Record<string, (options: SideOptions) => Promise<Side>>> = {
  'sqlite-ours': async (options) => (await import('./sqlite-ours.ts')).openSqliteOurs(options),
  'sqlite-raw': async (options) => (await import('./sqlite-raw.ts')).openSqliteRaw(options),
  'held-leases': async (options) => (await import('./held-leases.ts')).openHeldLeases(options),
  'sqlite-claims': async (options) => (await import('./sqlite-claims.ts')).openSqliteClaims(options),
};
