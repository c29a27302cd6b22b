import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import type { DemoProgress } from '@leasehold/example-helpdesk';
import { createDemoScreen } from '../src/demo-screen.ts';

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
