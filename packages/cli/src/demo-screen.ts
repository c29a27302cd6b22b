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

/** Of the cells of a row but its second and third, padding included. */
const FIXED = [20, 0, 0, 7, 9];
/** What of a row is no room for its second and third cell: the others, and the lines between them. */
const TAKEN = FIXED.reduce((sum, width) => sum + width, FIXED.length + 1);
/** Narrower, a row would say nothing. */
const LEAST_COLUMNS = 80;

/** On a terminal that is wide enough a table that is drawn over; elsewhere a line now and then. */
export function createDemoScreen(out: NodeJS.WriteStream): DemoScreen {
  return out.isTTY && out.columns >= LEAST_COLUMNS ? drawing(out) : writing(out);
}

function drawing(out: NodeJS.WriteStream): DemoScreen {
  const update = createLogUpdate(out);
  return {
    progress(progress) {
      if (out.columns < LEAST_COLUMNS) {
        update(headline(progress));
        return;
      }
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
  const left = columns - TAKEN;
  const doing = Math.ceil(left * 0.55);
  return FIXED.map((width, index) => (index === 1 ? left - doing : index === 2 ? doing : width));
}
