import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { explore } from './explore.ts';
import { createModel } from './model.ts';
import { INVARIANTS, RULE_NAMES, RULES, type ReceiverKind, type Rule } from './rules.ts';
import { searchWithout } from './search.ts';
import { At, blankState, Effect, pack, Task, unpack, WORDS, Write } from './state.ts';
import { stateTable } from './table.ts';
import { describePath } from './trace.ts';

const RECEIVERS: readonly ReceiverKind[] = ['guarded', 'transactional', 'plain'];
const SLOW = { timeout: 240_000 };

describe('with all rules and any two faults', () => {
  test.each(RECEIVERS)('no invariant breaks at a %s receiver, and every run can come to an end', SLOW, (receiver) => {
    const model = createModel({ receiver, faults: 2 });
    const reached = {
      at: new Set<number>(),
      task: new Set<number>(),
      effect: new Set<number>(),
      write: new Set<number>(),
    };
    const watched: typeof model = {
      ...model,
      judge(state) {
        for (const worker of state.workers) {
          reached.at.add(worker.at);
          reached.write.add(worker.write);
        }
        reached.task.add(state.record.state);
        reached.effect.add(state.record.effect);
        return model.judge(state);
      },
    };
    const { violation, complete, states } = explore(watched, Number.POSITIVE_INFINITY);
    expect(violation && [violation.invariant, ...describePath(model, violation.path)]).toBeUndefined();
    expect(complete).toBe(true);
    expect(states).toBeGreaterThan(100_000);
    // An exploration that goes nowhere would break nothing either.
    expect(reached).toEqual({
      at: new Set(Object.values(At)),
      task: new Set(Object.values(Task)),
      effect: new Set(Object.values(Effect)),
      write: new Set(Object.values(Write)),
    });
  });
});

describe('without a rule', () => {
  const rows = documentedRows();

  test('the page lists every rule', () => {
    expect([...rows.keys()].sort()).toEqual([...RULE_NAMES].sort());
  });

  test.each(RULE_NAMES)('%s, its invariant breaks, as the page says', SLOW, (name) => {
    const rule: Rule = RULES[name];
    const { scene, model, exploration } = searchWithout(name);
    expect(exploration.violation?.invariant).toBe(rule.breaks);
    const trace = describePath(model, exploration.violation?.path ?? []);
    expect(trace.join('\n')).not.toMatch(/^\s*\d+\.\s*(?:\[|$)/m);
    const faults = trace.filter((line) => line.includes('FAULT '));
    expect(faults.length).toBeLessThanOrEqual(scene.faults);
    expect(rows.get(name)).toEqual([
      rule.rule,
      rule.without,
      rule.breaks,
      rule.receiver ?? 'guarded',
      String(scene.faults),
      String(trace.length),
    ]);
  });
});

test('the page names every invariant as the program checks it', () => {
  const page = readPage();
  for (const [name, meaning] of Object.entries(INVARIANTS)) expect(page).toContain(`| ${name} | ${meaning} |`);
});

test('the page tells the counterexample without close-takes-token in full', () => {
  const { model, exploration } = searchWithout('close-takes-token');
  const trace = describePath(model, exploration.violation?.path ?? []).join('\n');
  expect(trace).toContain('the call with token 1 takes effect');
  expect(readPage()).toContain(trace);
});

test('a state comes back from its words as it was', () => {
  const [before, after] = [blankState(), blankState()];
  const words = new Uint32Array(WORDS + 2);
  const fields = <Part extends object>(part: Part): (keyof Part)[] => {
    const names = Object.getOwnPropertyNames(Object.getPrototypeOf(part)) as (keyof Part & string)[];
    return names.filter((name) => name !== 'constructor');
  };
  for (let round = 1; round < 60; round++) {
    const { cells: _cells, workers, calls, messages, ...single } = before;
    for (const part of [...workers, ...calls, ...messages, ...Object.values(single)] as Record<string, number>[]) {
      for (const [index, name] of fields(part).entries()) {
        // The widest value below the round's that fits.
        for (let value = (round * 7 + index * 3) % 32; ; value >>= 1) {
          try {
            part[name] = value;
            break;
          } catch (error) {
            if (!(error instanceof RangeError)) throw error;
          }
        }
      }
    }
    pack(before, words, 1);
    unpack(words, 1, after);
    expect(after.cells).toEqual(before.cells);
    expect([words[0], words[WORDS + 1]]).toEqual([0, 0]);
  }
});

test('a field refuses what it cannot hold, so that no bound of the model is passed in silence', () => {
  expect(() => (blankState().record.token = 16)).toThrow('token cannot hold 16');
});

test('the table numbers states in order, knows them again and keeps their parents while it grows', () => {
  const table = stateTable();
  const key = new Uint32Array(WORDS);
  const many = 30_000;
  const set = (number: number): void => key.set([number % 97, 0, number, 0, 0]);
  const wrong: number[] = [];
  for (let number = 0; number < many; number++) {
    set(number);
    if (table.add(key, number >> 1) !== -1 - number) wrong.push(number);
  }
  for (let number = many - 1; number >= 0; number--) {
    set(number);
    if (table.add(key, 0) !== number || table.parent(number) !== number >> 1) wrong.push(number);
  }
  expect(wrong).toEqual([]);
  expect(table.size).toBe(many);
});

test('a bound on states ends an exploration and leaves I5 open', () => {
  const { states, complete, violation, frontier } = explore(createModel({ receiver: 'guarded', faults: 2 }), 5_000);
  expect([complete, violation]).toEqual([false, undefined]);
  expect(states).toBeGreaterThanOrEqual(5_000);
  expect(frontier).toBeGreaterThan(0);
});

function readPage(): string {
  return readFileSync(new URL('../../docs/model.md', import.meta.url), 'utf8')
    .replaceAll(/ {2,}\|/g, ' |')
    .replaceAll(/\| {2,}/g, '| ');
}

/** The table of rules: name → rule, without, breaks, receiver, faults, steps. */
function documentedRows(): Map<string, string[]> {
  const rows = readPage().matchAll(/^\| `([\w-]+)` \|(.*)\|$/gm);
  return new Map(
    Array.from(rows, ([, name, cells]) => [name ?? '', (cells ?? '').split('|').map((cell) => cell.trim())]),
  );
}
