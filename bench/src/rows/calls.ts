import type { CallsResult } from '../calls-main.ts';
import { isMet, type Figure } from '../figures.ts';
import type { Row } from '../row.ts';
import { startChild } from '../side-process.ts';

const TASKS = 500;
const CONCURRENCY = 50;

/** API calls of a task, counted at the clients. */
export const calls: Row = {
  id: 'calls',
  async run(context) {
    const { servers, queue } = await context.servers();
    const figures: Figure[] = [];
    for (const [id, effect, most] of [
      ['calls', false, 2.25],
      ['calls-effect', true, 3.25],
    ] as const) {
      context.progress(`calls: ${TASKS} tasks ${effect ? 'with an effect' : 'without effects'}`);
      const child = startChild('./calls-main.ts');
      const options = { servers, queueUrl: await queue(id), table: id, directory: '', concurrency: CONCURRENCY };
      const counted = (await child.ask('count', options, TASKS, effect)) as CallsResult;
      await child.close();
      const perTask = Object.values(counted).reduce((sum, count) => sum + count, 0) / TASKS;
      const goal = { atMost: most };
      figures.push({
        id,
        title: `API calls of a task ${effect ? 'with one effect' : 'without effects'}, SQS batch 10 + DynamoDB`,
        unit: 'calls',
        ours: perTask,
        ratio: perTask,
        goal,
        met: isMet(perTask, goal),
        note: Object.entries(counted)
          .map(([name, count]) => `${name} ${(count / TASKS).toFixed(3)}`)
          .join(', '),
      });
    }
    return figures;
  },
};
