import { createLogUpdate } from 'log-update';
import type { DemoProgress, HeldTask } from '@leasehold/example-helpdesk';
import { boxedTable } from './plain-table.ts';
import { plain, shortId, spell } from './wording.ts';

/** Shows a demo while it runs. */
export interface DemoScreen {
  readonly progress: (progress: DemoProgress) => void;
  readonly note: (note: string) => void;
  done(): void;
}

/** How often a line is written where nothing can be drawn over. */
const LINE_EVERY_MS = 1_000;
/** Lines that are left free below the table. */
const MARGIN = 4;

/** On a terminal a table that is drawn over; elsewhere a line now and then. */
export function createDemoScreen(out: NodeJS.WriteStream): DemoScreen {
  return out.isTTY ? drawing(out) : writing(out);
}

function drawing(out: NodeJS.WriteStream): DemoScreen {
  const update = createLogUpdate(out);
  return {
    progress(progress) {
      const room = Math.max(3, out.rows - MARGIN - 5);
      const rows = progress.held.slice(0, room).map((task) => rowOf(task));
      const more = progress.held.length - rows.length;
      const lines = [
        headline(progress),
        boxedTable(['worker', 'task', 'doing', 'token', 'lease'], rows, widths(out.columns)),
      ];
      if (more > 0) lines.push(`and ${more} more`);
      update(lines.join('\n'));
    },
    note: (note) => update.persist(plain(note)),
    done() {
      update.clear();
      update.done();
    },
  };
}

function writing(out: NodeJS.WriteStream): DemoScreen {
  let last = -LINE_EVERY_MS;
  return {
    progress(progress) {
      if (progress.elapsedMs - last < LINE_EVERY_MS) return;
      last = progress.elapsedMs;
      out.write(`${headline(progress)}\n`);
    },
    note: (note) => void out.write(`${plain(note)}\n`),
    done: () => undefined,
  };
}

function headline(progress: DemoProgress): string {
  const { settled, cancelled, deadLettered, held, waiting, awaited } = progress;
  // As long as somebody is at work that says enough.
  const idle = held.length + waiting === 0 && awaited !== undefined ? `; it waits for ${plain(awaited)}` : '';
  return (
    `${(progress.elapsedMs / 1_000).toFixed(1)} s: ${settled} settled, ${cancelled} cancelled, ${deadLettered} dead-lettered, ` +
    `${held.length} held, ${waiting} waiting${idle}`
  );
}

function rowOf(task: HeldTask): string[] {
  const state = task.workerState === 'running' ? '' : ` (${task.workerState})`;
  const lease = task.remainingMs > 0 ? spell(task.remainingMs) : 'lapsed';
  return [
    `${plain(task.worker)}${state}`,
    `${plain(task.type)} ${shortId(task.taskId)}`,
    `${task.stage}: ${plain(task.reason)}`,
    String(task.token),
    lease,
  ];
}

/** Long cells are cut, so that a row stays one line and the drawing in its place. */
function widths(columns: number): number[] {
  const fixed = [20, 0, 0, 7, 9];
  const left = Math.max(40, columns - 36 - 8);
  return fixed.map((width, index) =>
    index === 1 ? Math.floor(left * 0.45) : index === 2 ? Math.ceil(left * 0.55) : width,
  );
}
