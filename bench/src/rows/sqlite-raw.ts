import { race, type Row } from '../row.ts';

/** SQLite beside a queue written by hand, one task at a time and ten at a time. */
export const sqliteRaw: Row = {
  id: 'sqlite-raw',
  async run(context) {
    const goal = { atLeast: 0.5 };
    const parts = { goal, ours: 'sqlite-ours', peer: 'sqlite-raw' };
    return [
      await race(context, {
        ...parts,
        id: 'sqlite-raw',
        title: 'SQLite / claim and delete by hand, one task at a time',
        concurrency: 1,
        tasks: 500,
      }),
      await race(context, {
        ...parts,
        id: 'sqlite-raw-10',
        title: 'SQLite / claim and delete by hand, ten at a time',
        concurrency: 10,
        tasks: 2_000,
      }),
    ];
  },
};
