import { isEnd, type Model } from './model.ts';
import type { Invariant } from './rules.ts';
import { blankState, pack, unpack, WORDS } from './state.ts';
import { numberList, stateTable, type NumberList, type StateTable } from './table.ts';

/** How far an exploration has come. */
export interface Progress {
  readonly states: number;
  /** States found and not looked at yet. */
  readonly frontier: number;
  readonly steps: number;
  /** Steps from the start. */
  readonly depth: number;
  readonly bytes: number;
}

/** What an exploration came to. */
export interface Exploration extends Progress {
  /** False when the bound on states was reached first: then nothing is said about I5. */
  readonly complete: boolean;
  /** The invariant that is broken, and the states on a shortest way there. */
  readonly violation?: { readonly invariant: Invariant; readonly path: readonly Uint32Array[] };
}

const REPORT_EVERY = 1 << 18;

/** Visits every state in order of distance, until an invariant breaks or `most` states are known; then looks whether all lead to an end. */
export function explore(
  model: Model,
  most: number,
  report: (progress: Progress) => void = () => undefined,
): Exploration {
  const table = stateTable();
  const runs = faultFreeRuns();
  const state = blankState();
  const key = new Uint32Array(WORDS);
  let steps = 0;
  let depth = 0;
  let levelEnd = 1;
  const bad: { readonly id: number; readonly invariant: Invariant }[] = [];
  let at = 0;
  const progress = (): Progress => ({
    states: table.size,
    frontier: table.size - at,
    steps,
    depth,
    bytes: table.bytes + runs.bytes,
  });

  pack(model.initial, key, 0);
  table.add(key, 0);
  for (; at < table.size && table.size < most && bad.length === 0; at++) {
    if (at === levelEnd) {
      depth += 1;
      levelEnd = table.size;
    }
    if (at % REPORT_EVERY === 0 && at > 0) report(progress());
    unpack(table.words, at * WORDS, state);
    runs.from(isEnd(state));
    model.successors(state, (next, fault) => {
      if (bad.length > 0) return;
      steps += 1;
      const invariant = model.judge(next);
      pack(next, key, 0);
      const answer = table.add(key, at);
      const id = answer < 0 ? -1 - answer : answer;
      if (!fault) runs.to(id);
      if (invariant && answer < 0) bad.push({ id, invariant });
    });
  }
  const complete = at === table.size;
  if (bad.length === 0 && complete) {
    const stuck = runs.firstWithoutEnd();
    if (stuck !== undefined) bad.push({ id: stuck, invariant: 'I5' });
  }
  const [first] = bad;
  return {
    ...progress(),
    complete,
    ...(first && { violation: { invariant: first.invariant, path: pathTo(table, first.id) } }),
  };
}

/** The steps that are no faults, kept to find the states from which they lead to no end. */
interface FaultFreeRuns {
  readonly bytes: number;
  /** The next state: is it an end? */
  from(isEnd: boolean): void;
  /** A step from that state. */
  to(id: number): void;
  /** The first state from which no run without faults reaches an end: backwards reachability, by rounds until nothing changes. */
  firstWithoutEnd(): number | undefined;
}

function faultFreeRuns(): FaultFreeRuns {
  const firstStep: NumberList = numberList();
  const steps: NumberList = numberList();
  const ends: NumberList = numberList();
  return {
    get bytes() {
      return firstStep.bytes + steps.bytes + ends.bytes;
    },
    from(isEnd_) {
      if (isEnd_) ends.push(firstStep.size);
      firstStep.push(steps.size);
    },
    to: (id) => steps.push(id),
    firstWithoutEnd() {
      const count = firstStep.size;
      const [first, to] = [firstStep.numbers, steps.numbers];
      const good = new Uint8Array(count);
      for (let index = 0; index < ends.size; index++) good[ends.numbers[index] as number] = 1;
      let stuck = count - ends.size;
      for (let before = Number.POSITIVE_INFINITY; stuck < before;) {
        before = stuck;
        // Most steps lead to states that were found later.
        for (let id = count - 1; id >= 0; id--) {
          if (good[id] === 1) continue;
          const end = id + 1 < count ? (first[id + 1] as number) : steps.size;
          for (let step = first[id] as number; step < end; step++) {
            if (good[to[step] as number] === 0) continue;
            good[id] = 1;
            stuck -= 1;
            break;
          }
        }
      }
      const found = good.indexOf(0);
      return found < 0 ? undefined : found;
    },
  };
}

function pathTo(table: StateTable, id: number): readonly Uint32Array[] {
  const path: Uint32Array[] = [];
  for (let at = id; ; at = table.parent(at)) {
    path.unshift(table.words.slice(at * WORDS, (at + 1) * WORDS));
    if (at === 0) return path;
  }
}
