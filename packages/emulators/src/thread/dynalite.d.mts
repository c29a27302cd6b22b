// The package has no types of its own; this is what is used of it.
declare module 'dynalite' {
  import type { Server } from 'node:http';

  export default function dynalite(options: {
    readonly createTableMs?: number;
    readonly updateTableMs?: number;
    readonly deleteTableMs?: number;
  }): Server;
}
