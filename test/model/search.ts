import { explore, type Exploration } from './explore.ts';
import { createModel, type Model, type Scene } from './model.ts';
import { RULES, type Rule, type RuleName } from './rules.ts';

/** An exploration, and of what. */
export interface Finding {
  readonly scene: Scene;
  readonly model: Model;
  readonly exploration: Exploration;
}

const MOST_FAULTS = 3;
const MOST_STATES = 5_000_000;

/** Looks for a counterexample without a rule: with as few faults as it takes, then by as few steps. The last finding has one, if there is any. */
export function searchWithout(without: RuleName): Finding {
  const rule: Rule = RULES[without];
  for (let faults = 0; ; faults++) {
    const scene = { receiver: rule.receiver ?? 'guarded', faults, without } as const;
    const model = createModel(scene);
    const exploration = explore(model, MOST_STATES);
    if (exploration.violation || faults === MOST_FAULTS) return { scene, model, exploration };
  }
}
