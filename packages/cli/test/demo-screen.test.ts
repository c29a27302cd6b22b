import { PassThrough } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { expect, test } from 'vitest';
import type { DemoProgress } from '@leasehold/example-helpdesk';
import { createDemoScreen } from '../src/demo-screen.ts';

const PROGRESS: DemoProgress = {
  elapsedMs: 1_000,
  held: [
    {
      taskId: 'a'.repeat(64),
      type: 'import_statement',
      worker: 'worker-1 of the fleet',
      workerState: 'stopped',
      stage: 'external_call',
      reason: 'page 3 of 12, which is a long one',
      token: 123_456_789,
      remainingMs: 2_900,
    },
  ],
  settled: 105,
  cancelled: 1,
  deadLettered: 3,
  waiting: 1,
};

/** What is written to a terminal of so many columns, line by line, without its steering characters. */
function drawnOn(columns: number): readonly string[] {
  const out = Object.assign(new PassThrough(), { isTTY: true, columns, rows: 24 });
  const screen = createDemoScreen(out as unknown as NodeJS.WriteStream);
  screen.progress(PROGRESS);
  return stripVTControlCharacters(String(out.read())).split('\n');
}

test.each([80, 81, 120])('on %i columns the rows of the table fit', (columns) => {
  const rows = drawnOn(columns).filter((line) => /^[┌│└├]/.test(line));
  // Top, head, line, one task, bottom: none was broken in two.
  expect(rows.map((row) => row.at(-1))).toEqual(['┐', '│', '┤', '│', '┘']);
  expect(Math.max(...rows.map((row) => row.length))).toBeLessThanOrEqual(columns);
  expect(rows.join('\n')).toMatch(/import_statem.*external_call/);
});

test('on 60 columns there are plain lines', () => {
  expect(drawnOn(60)).toEqual(['1.0 s: 105 settled, 1 cancelled, 3 dead-lettered, 1 held, 1 waiting', '']);
});

test('a terminal that is made narrow meanwhile has no table any more', () => {
  const out = Object.assign(new PassThrough(), { isTTY: true, columns: 80, rows: 24 });
  const screen = createDemoScreen(out as unknown as NodeJS.WriteStream);
  screen.progress(PROGRESS);
  out.read();
  out.columns = 70;
  screen.progress({ ...PROGRESS, elapsedMs: 2_000 });
  const lines = stripVTControlCharacters(String(out.read())).split('\n');
  expect(lines).toContain('2.0 s: 105 settled, 1 cancelled, 3 dead-lettered, 1 held, 1 waiting');
  expect(lines.filter((line) => line.includes('│'))).toEqual([]);
});

test('when nobody is at work any more the line says what the demo waits for', () => {
  const out = new PassThrough();
  const screen = createDemoScreen(out as unknown as NodeJS.WriteStream);
  const progress: DemoProgress = {
    elapsedMs: 1_000,
    held: [],
    settled: 105,
    cancelled: 1,
    deadLettered: 3,
    waiting: 0,
    awaited: 'the queue',
  };
  screen.progress({ ...progress, waiting: 1 });
  screen.progress({ ...progress, elapsedMs: 2_000 });
  expect(String(out.read())).toBe(
    '1.0 s: 105 settled, 1 cancelled, 3 dead-lettered, 0 held, 1 waiting\n' +
      '2.0 s: 105 settled, 1 cancelled, 3 dead-lettered, 0 held, 0 waiting; it waits for the queue\n',
  );
});
