import { race, type Row } from '../row.ts';

/** SQLite beside a queue written by hand. */
export const sqliteRaw: Row = {
  id: 'sqlite-raw',
  run: async (context) => [
    await race(context, {
      id: 'sqlite-raw',
      title: 'SQLite, one process / claim and delete by hand',
      goal: { atLeast: 0.5 },
      ours: 'sqlite-ours',
      peer: 'sqlite-raw',
      concurrency: 10,
      tasks: 3_000,
    }),
  ],
};
