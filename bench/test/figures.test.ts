import fc from 'fast-check';
import { expect, test } from 'vitest';
import { chart } from '../src/chart.ts';
import { compare, goalText, isMet, median, short, type Figure } from '../src/figures.ts';
import { jsonLine } from '../src/json-line.ts';
import { ROWS } from '../src/rows/index.ts';
import { table } from '../src/table.ts';

test('the median has as many values above as below, whatever their order', () => {
  fc.assert(
    fc.property(fc.array(fc.double({ noNaN: true, min: -1e9, max: 1e9 }), { minLength: 1 }), (values) => {
      const middle = median(values);
      const below = values.filter((value) => value < middle).length;
      const above = values.filter((value) => value > middle).length;
      expect(Math.abs(below - above)).toBeLessThanOrEqual(values.filter((value) => value === middle).length);
      expect(median(values.toReversed())).toBe(middle);
    }),
  );
  expect([median([3, 1, 2]), median([4, 1, 3, 2]), median([])]).toEqual([2, 2.5, Number.NaN]);
});

test('rounds are compared with their neighbours, so a slow spell that hits both changes no ratio', () => {
  const compared = compare([100, 50, 200], [80, 40, 160]);
  expect(compared).toEqual({ ours: 100, peer: 80, ratio: 1.25, spread: [1.25, 1.25] });
  expect(compare([1, 3], [2, 2]).spread).toEqual([0.5, 1.5]);
});

test('a goal is met at its bound and missed beyond it', () => {
  expect([isMet(0.9, { atLeast: 0.9 }), isMet(0.89, { atLeast: 0.9 })]).toEqual([true, false]);
  expect([isMet(2.25, { atMost: 2.25 }), isMet(2.26, { atMost: 2.25 })]).toEqual([true, false]);
  expect(isMet(Number.NaN, { atMost: 1 })).toBe(false);
  expect([goalText({ atLeast: 1 }), goalText({ atMost: 2 })]).toEqual(['>= 1', '<= 2']);
  expect([short(1_234.5), short(0.123_45), short(Number.NaN)]).toEqual(['1,235', '0.123', '-']);
});

const figure: Figure = {
  id: 'a',
  title: 'ours / <theirs>',
  unit: 'tasks/s',
  ours: 12,
  peer: 10,
  ratio: 1.2,
  spread: [1.1, 1.4],
  goal: { atLeast: 1 },
  met: true,
};

test('table and chart say of each figure whether its goal is met', () => {
  const missed = { ...figure, id: 'b', ratio: 0.5, met: false };
  expect(table([figure, missed]).split('\n').slice(2, 4)).toEqual([
    expect.stringMatching(/^a .*12 tasks\/s .*1\.2 .*yes/),
    expect.stringMatching(/^b .*0\.5 .*NO/),
  ]);
  const drawn = chart('<a row>', [figure, missed]);
  expect(drawn.match(/class="met"/g)).toHaveLength(1);
  expect(drawn.match(/class="missed"/g)).toHaveLength(1);
  expect(drawn).not.toContain('<theirs>');
});

test('--json is one line with every figure, and each row under its own id as well, by what is furthest from its goal', () => {
  const growth = ['growth-leases', 'growth-records'].map((id, index) => ({
    ...figure,
    id,
    ratio: 1 + index / 20,
    goal: { atMost: 1.1 },
  }));
  const { peer: _none, ...alone } = figure;
  const line = jsonLine([
    { row: 'a', figures: [alone] },
    { row: 'growth', figures: growth },
  ]);
  expect(line).not.toContain('\n');
  expect(JSON.parse(line)).toEqual({
    rows: [
      { id: 'a', ours: 12, peer: null, ratio: 1.2, goal: figure.goal, met: figure.met },
      ...['growth', 'growth-leases', 'growth-records'].map((id) => ({
        ...{ id, ours: 12, peer: 10, ratio: id === 'growth-leases' ? 1 : 1.05, goal: { atMost: 1.1 }, met: figure.met },
      })),
    ],
  });
  expect(ROWS.map(({ id }) => id)).toEqual([
    ...['sqs-raw', 'sqs-consumer', 'aws-raw', 'aws-powertools', 'sqlite-raw', 'calls', 'leases-10k', 'growth'],
  ]);
});
